//! A regular expression that others wrote, for a text that others wrote: looking for it ends.
//!
//! One search cannot be interrupted. In the worst case it takes a step for each part of the pattern at each byte of
//! the text; where that would be too much, only the quick way is tried, which gives up when it is none.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;

use glee_core::outcome::{Failure, FailureKind};
use regex_automata::hybrid::dfa;
use regex_automata::hybrid::regex::{Cache, Regex as Lazy};
use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson;
use regex_automata::util::iter::Searcher;
use regex_automata::util::syntax;
use regex_automata::{Input, Match, MatchError};

use super::Stop;

/// Of a compiled pattern, in bytes: some hundred words, or five classes of letters of all scripts.
const LARGEST: usize = 256 << 10;
/// Steps of one search: some seconds.
const MOST_STEPS: usize = 1 << 28;
/// What the quick way may remember of the text.
const QUICK: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// Letters are what they are.
    Told,
    Ignored,
}

pub(super) struct Pattern {
    text: String,
    syntax: syntax::Config,
    regex: Regex,
    /// How many steps each byte of a text may take.
    parts: usize,
    /// Made where it is needed.
    quick: OnceCell<Option<Quick>>,
}

struct Quick {
    regex: Lazy,
    cache: RefCell<Cache>,
}

/// Nobody knows whether it is there: to look would take too long.
#[derive(Debug)]
pub(super) struct TooLong;

impl Pattern {
    pub(super) fn new(text: &str, case: Case) -> Result<Pattern, Failure> {
        let syntax = syntax::Config::new().case_insensitive(case == Case::Ignored);
        let limited = meta::Config::new().nfa_size_limit(Some(LARGEST));
        let regex = Regex::builder()
            .configure(limited)
            .syntax(syntax)
            .build(text)
            .map_err(|err| unusable(&err))?;
        let nfa = thompson::Compiler::new()
            .configure(limited_size())
            .syntax(syntax)
            .build(text);
        Ok(Pattern {
            text: text.to_owned(),
            syntax,
            regex,
            parts: nfa.map_or(LARGEST, |it| it.states().len()),
            quick: OnceCell::new(),
        })
    }

    fn quick(&self) -> Option<&Quick> {
        let quick = self.quick.get_or_init(|| {
            let gives_up = dfa::Config::new()
                .cache_capacity(QUICK)
                .unicode_word_boundary(true)
                .minimum_cache_clear_count(Some(3))
                // A step that was not taken before takes as long as the pattern has parts.
                .minimum_bytes_per_state(Some(10 + self.parts / 8));
            let regex = Lazy::builder()
                .thompson(limited_size())
                .syntax(self.syntax)
                .dfa(gives_up)
                .build(&self.text)
                .ok()?;
            let cache = RefCell::new(regex.create_cache());
            Some(Quick { regex, cache })
        });
        quick.as_ref()
    }

    pub(super) fn is_in(&self, text: &str) -> Result<bool, TooLong> {
        let found = self.search(&Input::new(text).earliest(true));
        found.map(|it| it.is_some()).map_err(|_| TooLong)
    }

    /// Each place of a text that it matches, as long as somebody waits. Each may take as long as the text is.
    pub(super) fn places<'a>(
        &'a self,
        text: &'a str,
        stop: &'a Stop,
    ) -> impl Iterator<Item = Result<Range<usize>, TooLong>> + 'a {
        let mut searcher = Searcher::new(Input::new(text));
        std::iter::from_fn(move || {
            if stop.is_set() {
                return None;
            }
            let found = searcher.try_advance(|input| self.search(input));
            found
                .map_err(|_| TooLong)
                .transpose()
                .map(|it| it.map(|it| it.range()))
        })
    }

    fn search(&self, input: &Input<'_>) -> Result<Option<Match>, MatchError> {
        let steps = input.get_span().len().saturating_mul(self.parts);
        if steps <= MOST_STEPS {
            return Ok(self.regex.search(input));
        }
        let gave_up = || MatchError::gave_up(input.start());
        let quick = self.quick().ok_or_else(gave_up)?;
        quick.regex.try_search(&mut quick.cache.borrow_mut(), input)
    }
}

fn limited_size() -> thompson::Config {
    thompson::Config::new().nfa_size_limit(Some(LARGEST))
}

fn unusable(err: &meta::BuildError) -> Failure {
    if let Some(most) = err.size_limit() {
        let message = format!("the pattern needs more than {most} bytes when it is compiled");
        return invalid(message).hint(
            "search for less at once; `(?-u:…)` makes classes such as \\w small: ASCII alone",
        );
    }
    let why = err
        .syntax_error()
        .map_or_else(|| err.to_string(), |it| it.to_string());
    invalid(format!("the pattern cannot be used: {why}")).hint(
        "look-around and back-references are not known: they cannot be searched in linear time",
    )
}

pub(super) fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(pattern: &str, text: &str) -> Result<Vec<(usize, usize)>, TooLong> {
        let pattern = Pattern::new(pattern, Case::Told).unwrap();
        let stop = Stop::default();
        let found = pattern.places(text, &stop);
        found.map(|it| it.map(|it| (it.start, it.end))).collect()
    }

    #[test]
    fn places_of_a_text() {
        assert_eq!(places("a*", "aab").unwrap(), [(0, 2), (3, 3)]);
        assert_eq!(places("", "é").unwrap(), [(0, 0), (2, 2)]);
        assert_eq!(places(r"\bé\w", "a éb").unwrap(), [(2, 5)]);
        assert!(
            Pattern::new("A", Case::Ignored)
                .unwrap()
                .is_in("xa")
                .unwrap()
        );
        // Either way it is the same.
        let long = format!("{}foo(bar) ", "word ".repeat(1 << 20));
        let at = long.len() - 9;
        assert_eq!(places(r"\w+\(\w+\)", &long).unwrap(), [(at, at + 8)]);
    }

    #[test]
    fn patterns_people_use() {
        for pattern in [
            r"(?i)\bfn\s+(\w+)\s*\(([^)]*)\)",
            r"[\w.+-]+@[\w-]+\.[\w.-]+",
            r"(\d{1,3}\.){3}\d{1,3}",
            r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
            r"(TODO|FIXME|XXX)\s*[:(]\s*\w+",
        ] {
            assert!(Pattern::new(pattern, Case::Told).is_ok(), "{pattern}");
        }
        for pattern in ["[ab]*a[ab]{15000}Z", r"\w{100}", "(?=x)"] {
            let refused = Pattern::new(pattern, Case::Told).err().unwrap();
            assert_eq!(refused.kind, FailureKind::InvalidInput, "{pattern}");
        }
    }

    /// Neither a pattern that remembers all it has seen, nor one that looks at all that is left for each place.
    #[test]
    fn it_ends() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ["a", "b"][(seed >> 63) as usize]
        };
        let text: String = (0..4 << 20).map(|_| next()).collect();
        assert!(places("[ab]*a[ab]{2000}Z", &text).is_err());
        let stop = Stop::default();
        let pattern = Pattern::new(".*[^A-Z]|[A-Z]", Case::Told).unwrap();
        let text = "A".repeat(1 << 20);
        let mut found = pattern.places(&text, &stop);
        assert!(found.next().is_some());
        stop.0.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(found.next().is_none());
    }
}
