//! Results that were too large to be shown whole, kept for a while for the one who asked, and read in parts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glee_core::outcome::head;
use uuid::Uuid;

/// How long a result can be read again.
pub const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// All of them together take no more than this; the oldest go first.
const MOST_BYTES: usize = 64 << 20;
/// What one takes besides its text.
const EACH: usize = 1 << 10;

#[derive(Default)]
pub struct Results(Mutex<VecDeque<Kept>>);

struct Kept {
    id: String,
    owner: String,
    text: Arc<str>,
    until: Instant,
}

impl Results {
    /// Keeps a text and gives its handle. A handle cannot be guessed, and serves only its owner.
    pub fn keep(&self, owner: &str, text: String) -> String {
        let id = Uuid::new_v4().simple().to_string();
        let mut kept = self.lock();
        kept.push_back(Kept {
            id: id.clone(),
            owner: owner.to_owned(),
            text: text.into(),
            until: Instant::now() + KEPT_FOR,
        });
        let mut bytes: usize = kept.iter().map(|it| EACH + it.text.len()).sum();
        while let Some(oldest) = kept.front()
            && (bytes > MOST_BYTES || oldest.until < Instant::now())
        {
            bytes -= EACH + oldest.text.len();
            kept.pop_front();
        }
        id
    }

    /// What is no longer there and what is somebody else's look the same.
    pub fn get(&self, owner: &str, id: &str) -> Option<Arc<str>> {
        let now = Instant::now();
        self.lock()
            .iter()
            .find(|it| it.id == id && it.owner == owner && it.until >= now)
            .map(|it| it.text.clone())
    }

    /// The handles of one owner, oldest first, with the size of each text.
    pub fn of(&self, owner: &str) -> Vec<(String, usize)> {
        let now = Instant::now();
        self.lock()
            .iter()
            .filter(|it| it.owner == owner && it.until >= now)
            .map(|it| (it.id.clone(), it.text.len()))
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Kept>> {
        // Whole after every statement, so a panic elsewhere has broken nothing in it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a match takes in an answer besides its text.
const HIT: usize = 40;
/// Shown of a line that matches; the rest can be read from its offset.
const LONGEST_LINE: usize = 500;

/// A part of a text, and where to go on.
pub struct Part<T> {
    pub it: T,
    pub next: Option<usize>,
}

impl<T> Part<T> {
    fn until(it: T, end: usize, text: &str) -> Part<T> {
        Part {
            it,
            next: (end < text.len()).then_some(end),
        }
    }
}

/// The text from an offset on.
pub fn slice(text: &str, offset: usize, limit: usize) -> Part<&str> {
    let start = text.floor_char_boundary(offset.min(text.len()));
    let end = text.ceil_char_boundary(start.saturating_add(limit).min(text.len()));
    Part::until(&text[start..end], end, text)
}

/// The lines from an offset on that hold a pattern, in upper or lower case, each with its offset.
pub fn grep(text: &str, offset: usize, limit: usize, pattern: &str) -> Part<Vec<(usize, String)>> {
    let start = text.floor_char_boundary(offset.min(text.len()));
    let pattern = pattern.to_lowercase();
    let mut left = limit;
    let mut found = Vec::new();
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        if left == 0 {
            break;
        }
        if let Some(place) = find(line, &pattern) {
            // Of a long line, what stands around the match.
            let from = line.floor_char_boundary(place.saturating_sub(LONGEST_LINE / 2));
            let told = head(line[from..].trim_end(), LONGEST_LINE.min(left));
            left -= (told.len() + HIT).min(left);
            found.push((at + from, told));
        }
        at += line.len();
    }
    Part::until(found, at, text)
}

/// Where a line holds a pattern, in upper or lower case.
fn find(line: &str, pattern: &str) -> Option<usize> {
    if line.is_ascii() {
        return line.to_ascii_lowercase().find(pattern);
    }
    // Folding may move characters; then the line as a whole is what was found.
    line.find(pattern)
        .or_else(|| line.to_lowercase().contains(pattern).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_reads() {
        let results = Results::default();
        let id = results.keep("a", "text".into());
        assert_eq!(results.get("a", &id).as_deref(), Some("text"));
        assert_eq!(results.get("b", &id), None);
        assert!(results.of("b").is_empty());
    }

    #[test]
    fn nothing_is_kept_for_ever() {
        let results = Results::default();
        let old = results.keep("a", "text".into());
        results.lock()[0].until = Instant::now() - Duration::from_secs(1);
        assert_eq!(results.get("a", &old), None);
        assert!(results.of("a").is_empty());
        results.keep("a", "more".into());
        assert_eq!(results.lock().len(), 1);
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let results = Results::default();
        let first = results.keep("a", "x".repeat(MOST_BYTES / 2 - EACH));
        let second = results.keep("a", "x".repeat(MOST_BYTES / 2 - EACH));
        let third = results.keep("a", "x".into());
        assert_eq!(results.get("a", &first), None);
        assert!(results.get("a", &second).is_some());
        assert!(results.get("a", &third).is_some());
    }
}
