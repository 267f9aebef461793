//! Results that were too large to be shown whole, kept for a while for the one who asked, and read in parts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glee_core::outcome::head;
use uuid::Uuid;

/// How long a result can be read again.
pub const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// All of them together take no more than this.
const MOST_BYTES: usize = 64 << 20;
/// Those of one caller take no more than this; what is larger is not kept.
const MOST_OF_ONE: usize = 32 << 20;
/// What one takes besides its text, so that there are only so many: 2048 of one caller, and 4096 in all.
const EACH: usize = 16 << 10;

/// In the order in which they came.
#[derive(Default)]
pub struct Results(Mutex<VecDeque<Kept>>);

struct Kept {
    id: String,
    owner: String,
    text: Arc<str>,
    until: Instant,
}

impl Kept {
    fn takes(&self) -> usize {
        EACH + self.text.len()
    }
}

impl Results {
    /// Keeps a text and gives its handle, unless it is too large. A handle cannot be guessed, and serves only its
    /// owner. Whoever keeps much loses its own oldest for it; when there is too much of all, whoever has most does.
    pub fn keep(&self, owner: &str, text: String) -> Option<String> {
        let now = Instant::now();
        let new = Kept {
            id: Uuid::new_v4().simple().to_string(),
            owner: owner.to_owned(),
            text: text.into(),
            until: now + KEPT_FOR,
        };
        if new.takes() > MOST_OF_ONE {
            return None;
        }
        let mut kept = self.lock();
        kept.retain(|it| it.until >= now);
        let mut held = held(&kept);
        let mut all: usize = held.values().sum();
        loop {
            let own = held.get(owner).copied().unwrap_or(0);
            let loses = if own + new.takes() > MOST_OF_ONE {
                owner.to_owned()
            } else if all + new.takes() > MOST_BYTES {
                let most = held.iter().max_by_key(|(_, bytes)| **bytes);
                most.map(|(owner, _)| owner.clone()).unwrap_or_default()
            } else {
                break;
            };
            let oldest = kept.iter().position(|it| it.owner == loses);
            let Some(lost) = oldest.and_then(|it| kept.remove(it)) else {
                break;
            };
            all -= lost.takes();
            *held.entry(loses).or_default() -= lost.takes();
        }
        let id = new.id.clone();
        kept.push_back(new);
        Some(id)
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

/// What each owner has.
fn held(kept: &VecDeque<Kept>) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for it in kept {
        *held.entry(it.owner.clone()).or_default() += it.takes();
    }
    held
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
        let id = results.keep("a", "text".into()).unwrap();
        assert_eq!(results.get("a", &id).as_deref(), Some("text"));
        assert_eq!(results.get("b", &id), None);
        assert!(results.of("b").is_empty());
    }

    #[test]
    fn nothing_is_kept_for_ever() {
        let results = Results::default();
        let old = results.keep("a", "text".into()).unwrap();
        results.lock()[0].until = Instant::now() - Duration::from_secs(1);
        assert_eq!(results.get("a", &old), None);
        assert!(results.of("a").is_empty());
        results.keep("a", "more".into());
        assert_eq!(results.lock().len(), 1);
    }

    #[test]
    fn whoever_keeps_much_loses_its_own_oldest() {
        let results = Results::default();
        let there = |owner: &str, id: &Option<String>| {
            results
                .get(owner, id.as_deref().unwrap_or_default())
                .is_some()
        };
        let other = results.keep("b", "text".into());
        let half = || "x".repeat(MOST_OF_ONE / 2 - EACH);
        let first = results.keep("a", half());
        let second = results.keep("a", half());
        let third = results.keep("a", "x".into());
        assert!(!there("a", &first) && there("a", &second) && there("a", &third));
        // Many small ones are much, too.
        for _ in 0..MOST_OF_ONE / EACH + 10 {
            assert!(results.keep("a", String::new()).is_some());
        }
        assert!(!there("a", &second) && there("b", &other));
        assert!(results.of("a").len() <= MOST_OF_ONE / EACH);
        // Nobody can read what is not kept, so nobody loses anything for it.
        let last = results.keep("a", "x".into());
        assert_eq!(results.keep("a", "x".repeat(MOST_OF_ONE)), None);
        assert!(there("a", &last) && there("b", &other));
    }

    #[test]
    fn when_all_keep_too_much_whoever_has_most_loses() {
        let results = Results::default();
        let small = results.keep("small", "text".into()).unwrap();
        let quarter = || "x".repeat(MOST_OF_ONE / 4 - EACH);
        for owner in ["a", "b", "c", "d"] {
            for _ in 0..8 {
                let new = results.keep(owner, quarter()).unwrap();
                assert!(results.get(owner, &new).is_some(), "{owner}");
            }
            let all: usize = held(&results.lock()).values().sum();
            assert!(all <= MOST_BYTES, "{all}");
        }
        let kept = ["a", "b", "c", "d"].map(|it| results.of(it).len());
        assert!(kept.iter().all(|it| (1..=2).contains(it)), "{kept:?}");
        assert!(results.get("small", &small).is_some());
    }
}
