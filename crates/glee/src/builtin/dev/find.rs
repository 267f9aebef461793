//! Searching the project's code, by a pattern or by words: `search_code`.
//!
//! What `.gitignore` leaves out is left out, and so is what holds secrets. Names come from walking the
//! directories; every file is opened beneath the project's root.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use glee_core::outcome::Failure;
use glee_core::rule::sensitive;
use ignore::WalkBuilder;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::blocking;
use super::super::text::{Case, invalid, pattern};
use super::super::workspace::{Ground, Workspace, shown};
use crate::native::{About, Context, NativeTool};

/// Larger files are not code.
const LARGEST: u64 = 4 << 20;
/// Letters of a line that are shown.
const LONGEST_LINE: usize = 400;
/// Words of one query.
const MOST_WORDS: usize = 32;

pub(in super::super) struct SearchCode(pub(in super::super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in super::super) struct Input {
    /// What to search for: a regular expression, or words
    #[schemars(length(min = 1, max = 10000))]
    query: String,
    /// `regex` lists the lines that match; `words` ranks files by how well the words fit them
    #[serde(default)]
    mode: Mode,
    /// A directory to search in, from the project's root
    #[serde(default)]
    path: Option<String>,
    /// Whether capital letters are as good as small ones
    #[serde(default)]
    ignore_case: bool,
    /// How many matches to give
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: usize,
}

fn fifty() -> usize {
    50
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Regex,
    Words,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Output {
    matches: Vec<Match>,
    /// Whether there are more
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    path: String,
    /// From 1
    line: usize,
    text: String,
    /// How well the file fits; only for words
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

impl NativeTool for SearchCode {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "search_code",
            "Search the project's files by a regular expression or by words. What .gitignore leaves out is left out.",
        )
        .reads(&["."])
        .tags(&["code", "search"])
        .read_only()
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        // Nobody can stop a thread; at its deadline it stops by itself.
        let until = Instant::now() + context.timeout();
        blocking(move || {
            let workspace = Workspace::open(&root, &ground)?;
            let project = Project {
                workspace,
                root,
                until,
            };
            search(&project, &input)
        })
        .await
    }
}

/// What is searched.
struct Project {
    workspace: Workspace,
    root: PathBuf,
    until: Instant,
}

fn search(project: &Project, input: &Input) -> Result<Output, Failure> {
    let below = match &input.path {
        None => PathBuf::new(),
        Some(path) => project.workspace.inside(path)?,
    };
    project.workspace.directory(&below)?;
    match input.mode {
        Mode::Regex => {
            let case = if input.ignore_case {
                Case::Ignored
            } else {
                Case::Told
            };
            let pattern = pattern(&input.query, case)?;
            Ok(lines(project, &below, &pattern, input.max_results))
        }
        Mode::Words => {
            let words = words(&input.query);
            if words.is_empty() || words.len() > MOST_WORDS {
                return Err(invalid(format!("give between 1 and {MOST_WORDS} words")));
            }
            Ok(ranked(project, &below, &words, input.max_results))
        }
    }
}

/// The texts of the project, by their paths from its root.
fn texts<'a>(project: &'a Project, below: &Path) -> impl Iterator<Item = (PathBuf, String)> + 'a {
    let Project {
        workspace,
        root,
        until,
    } = project;
    let walk = WalkBuilder::new(root.join(below))
        .follow_links(false)
        .require_git(false)
        // What lies above the project, or in the person's home, has no say.
        .parents(false)
        .git_global(false)
        .sort_by_file_name(Ord::cmp)
        .build();
    let in_time = walk.take_while(move |_| Instant::now() < *until);
    in_time.flatten().filter_map(move |entry| {
        let is_file = entry.file_type().is_some_and(|it| it.is_file());
        let path = entry.path().strip_prefix(root).ok().filter(|_| is_file)?;
        if sensitive::holds_secrets(entry.path()) {
            return None;
        }
        let (file, found) = workspace.file(path).ok()?;
        if found.st_size as u64 > LARGEST {
            return None;
        }
        let mut bytes = Vec::with_capacity(found.st_size as usize);
        File::from(file)
            .take(LARGEST)
            .read_to_end(&mut bytes)
            .ok()?;
        let is_binary = memchr::memchr(0, &bytes[..bytes.len().min(8 << 10)]).is_some();
        let text = String::from_utf8(bytes).ok().filter(|_| !is_binary)?;
        Some((path.to_owned(), text))
    })
}

fn lines(project: &Project, below: &Path, pattern: &Regex, most: usize) -> Output {
    let mut output = Output {
        matches: Vec::new(),
        truncated: false,
    };
    for (path, text) in texts(project, below) {
        // Most files do not match at all, and are gone through once.
        if !pattern.is_match(&text) {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            if !pattern.is_match(line) {
                continue;
            }
            if output.matches.len() == most {
                output.truncated = true;
                return output;
            }
            output.matches.push(Match {
                path: shown(&path),
                line: at + 1,
                text: shortened(line),
                score: None,
            });
        }
    }
    output
}

/// What is known of one file: how often each word stands in it, and the line where most of them do.
struct Page {
    path: PathBuf,
    counts: Vec<usize>,
    length: usize,
    line: usize,
    text: String,
}

/// Files by how well the words fit them: rare words count more, and so do short files (BM25).
fn ranked(project: &Project, below: &Path, wanted: &[String], most: usize) -> Output {
    let mut pages = Vec::new();
    let (mut files, mut length) = (0usize, 0usize);
    for (path, text) in texts(project, below) {
        files += 1;
        length += text.len();
        pages.extend(page(path, &text, wanted));
    }
    let average = length as f64 / files.max(1) as f64;
    let rarity: Vec<f64> = (0..wanted.len())
        .map(|word| {
            let with = pages.iter().filter(|it| it.counts[word] > 0).count() as f64;
            ((files as f64 - with + 0.5) / (with + 0.5) + 1.0).ln()
        })
        .collect();
    let score = |page: &Page| -> f64 {
        let long = 0.25 + 0.75 * page.length as f64 / average.max(1.0);
        let parts = page.counts.iter().zip(&rarity).map(|(&count, rarity)| {
            let count = count as f64;
            rarity * count * 2.2 / (count + 1.2 * long)
        });
        parts.sum()
    };
    let mut scored: Vec<(f64, Page)> = pages.into_iter().map(|it| (score(&it), it)).collect();
    scored.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.path.cmp(&b.path)));
    Output {
        truncated: scored.len() > most,
        matches: scored
            .into_iter()
            .take(most)
            .map(|(score, page)| Match {
                path: shown(&page.path),
                line: page.line,
                text: page.text,
                score: Some((score * 1000.0).round() / 1000.0),
            })
            .collect(),
    }
}

fn page(path: PathBuf, text: &str, wanted: &[String]) -> Option<Page> {
    let places: HashMap<&str, usize> = wanted
        .iter()
        .enumerate()
        .map(|(at, it)| (it.as_str(), at))
        .collect();
    let mut counts = vec![0; wanted.len()];
    // The name of a file tells what it is about.
    for word in words(&path.to_string_lossy()) {
        if let Some(&at) = places.get(word.as_str()) {
            counts[at] += 2;
        }
    }
    let (mut line, mut best, mut shown) = (1, 0, text.lines().next().unwrap_or_default());
    for (at, text) in text.lines().enumerate() {
        let mut here = 0u32;
        for word in words(text) {
            if let Some(&word) = places.get(word.as_str()) {
                counts[word] += 1;
                here |= 1 << word;
            }
        }
        if here.count_ones() > best {
            (line, best, shown) = (at + 1, here.count_ones(), text);
        }
    }
    counts.iter().any(|&it| it > 0).then(|| Page {
        counts,
        length: text.len(),
        line,
        text: shortened(shown),
        path,
    })
}

/// The words of a text, in small letters: `parseHttpUrl` and `parse_http_url` hold three.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for c in text.chars().chain([' ']) {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

fn shortened(line: &str) -> String {
    line.trim_end().chars().take(LONGEST_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_of_code() {
        assert_eq!(
            words("parseHttpUrl(x_1)"),
            ["parse", "http", "url", "x", "1"]
        );
        assert_eq!(words("--"), [""; 0]);
    }
}
