//! A resource: something to read under a URI, or under every URI that fits a pattern.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::content::Body;
use crate::template::Template;

/// URIs of this scheme are glee's own.
pub const RESERVED_SCHEME: &str = "glee";

/// Longest URI of a document, in bytes.
const MAX_URI: usize = 8192;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub uri: UriPattern,
    pub mime_type: Option<String>,
    pub holds: Holds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    Text(Template),
    /// A path from the project's root.
    File(String),
    Base64(String),
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    pub uri: String,
    pub mime_type: Option<String>,
    pub body: Body,
}

/// A URI with holes: `notes://{year}/{title}`. A hole takes one or more characters other than `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriPattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Hole(String),
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UriProblem {
    #[error("a URI has at most {MAX_URI} bytes")]
    TooLong,
    #[error("a URI begins with a scheme, as in `notes://…`")]
    NoScheme,
    #[error("URIs of the scheme `{RESERVED_SCHEME}` are reserved for glee")]
    Reserved,
    #[error("a URI cannot hold {0}")]
    BadCharacter(String),
    #[error("`{{` is never closed")]
    Unclosed,
    #[error("`}}` closes nothing")]
    Unopened,
    #[error("`{{{0}}}` is not a hole: write a name of letters, digits and `_`")]
    BadHole(String),
    #[error("`{{{0}}}` stands there twice")]
    Twice(String),
    #[error("something must stand between `{{{0}}}` and `{{{1}}}`")]
    Adjacent(String, String),
}

impl UriPattern {
    pub fn parse(text: &str) -> Result<UriPattern, UriProblem> {
        if text.len() > MAX_URI {
            return Err(UriProblem::TooLong);
        }
        check_scheme(text)?;
        if let Some(bad) = text.chars().find(|&c| c.is_whitespace() || c.is_control()) {
            let shown = format!("the character U+{:04X}", bad as u32);
            return Err(UriProblem::BadCharacter(shown));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            push_text(&mut parts, before)?;
            let (name, after) = after.split_once('}').ok_or(UriProblem::Unclosed)?;
            push_hole(&mut parts, name)?;
            rest = after;
        }
        push_text(&mut parts, rest)?;
        Ok(UriPattern {
            text: text.to_owned(),
            parts,
        })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the holes, from left to right.
    pub fn holes(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Whether it stands for many URIs.
    pub fn is_template(&self) -> bool {
        self.holes().next().is_some()
    }

    /// What fills the holes, when the URI fits. Of several ways the one in which earlier holes take
    /// less; no way is tried twice, so that this takes linear time.
    pub fn fit(&self, uri: &str) -> Option<Map<String, Value>> {
        let (first, mut parts) = match self.parts.as_slice() {
            [Part::Text(first), parts @ ..] => (first, parts),
            _ => return None,
        };
        let mut rest = uri.strip_prefix(first.as_str())?;
        let mut filled = Map::new();
        while let [Part::Hole(name), after @ ..] = parts {
            let (taken, left) = match after {
                [] => (rest, ""),
                [Part::Text(last)] => (rest.strip_suffix(last.as_str())?, ""),
                [Part::Text(next), ..] => take_until(rest, next)?,
                [Part::Hole(_), ..] => return None,
            };
            if taken.is_empty() || taken.contains('/') {
                return None;
            }
            filled.insert(name.clone(), taken.into());
            rest = left;
            parts = after.get(1..).unwrap_or_default();
        }
        rest.is_empty().then_some(filled)
    }
}

/// What a hole takes when this text follows it, and what comes after that text.
fn take_until<'a>(rest: &'a str, next: &str) -> Option<(&'a str, &'a str)> {
    let start = match next.find('/') {
        // A hole takes no `/`, so the first one there is must be the text's own.
        Some(slash) => rest.find('/')?.checked_sub(slash)?,
        // The first place that leaves the hole something; a later one would only leave less room
        // for what follows.
        None => {
            let one = rest.chars().next()?.len_utf8();
            one + rest[one..].find(next)?
        }
    };
    let left = rest.get(start..)?.strip_prefix(next)?;
    Some((&rest[..start], left))
}

/// The scheme is literal: a hole there could stand for a scheme that is reserved.
fn check_scheme(text: &str) -> Result<(), UriProblem> {
    let (scheme, _) = text.split_once(':').ok_or(UriProblem::NoScheme)?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    match is_scheme {
        false => Err(UriProblem::NoScheme),
        true if scheme.eq_ignore_ascii_case(RESERVED_SCHEME) => Err(UriProblem::Reserved),
        true => Ok(()),
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) -> Result<(), UriProblem> {
    if text.contains('}') {
        return Err(UriProblem::Unopened);
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
    Ok(())
}

fn push_hole(parts: &mut Vec<Part>, name: &str) -> Result<(), UriProblem> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_word) {
        return Err(UriProblem::BadHole(name.to_owned()));
    }
    if parts.contains(&Part::Hole(name.to_owned())) {
        return Err(UriProblem::Twice(name.to_owned()));
    }
    // Where one of two neighbours ends nobody could tell.
    if let Some(Part::Hole(before)) = parts.last() {
        return Err(UriProblem::Adjacent(before.clone(), name.to_owned()));
    }
    parts.push(Part::Hole(name.to_owned()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fit(pattern: &str, uri: &str) -> Option<Value> {
        let pattern = UriPattern::parse(pattern).unwrap();
        pattern.fit(uri).map(Value::Object)
    }

    #[test]
    fn holes_are_filled() {
        assert_eq!(fit("a://x", "a://x"), Some(json!({})));
        assert_eq!(fit("a://x", "a://xy"), None);
        assert_eq!(fit("a://{id}", "a://7"), Some(json!({"id": "7"})));
        assert_eq!(fit("a://{id}", "a://"), None);
        assert_eq!(fit("a://{id}", "a://7/8"), None);
        assert_eq!(fit("a://{id}/data", "a://7/data"), Some(json!({"id": "7"})));
        assert_eq!(fit("a://{id}/data", "a:///data"), None);
        assert_eq!(
            fit("a://{x}-{y}/z", "a://1-2-3/z"),
            Some(json!({"x": "1", "y": "2-3"}))
        );
        assert_eq!(
            fit("a://{x}-{y}", "a://--ü"),
            Some(json!({"x": "-", "y": "ü"}))
        );
        assert_eq!(
            fit("a://{x}b/c{y}d", "a://ob/cdd"),
            Some(json!({"x": "o", "y": "d"}))
        );
    }

    #[test]
    fn what_is_no_pattern() {
        let problem = |text: &str| UriPattern::parse(text).unwrap_err();
        for text in ["", "x", "/x", "{s}://x", "1a://", "a b://"] {
            assert_eq!(problem(text), UriProblem::NoScheme, "{text}");
        }
        for text in ["glee://x", "GLEE:x", "glee:"] {
            assert_eq!(problem(text), UriProblem::Reserved, "{text}");
        }
        assert_eq!(problem(&"a:".repeat(9000)), UriProblem::TooLong);
        assert!(matches!(problem("a://x y"), UriProblem::BadCharacter(_)));
        assert_eq!(problem("a://{x"), UriProblem::Unclosed);
        assert_eq!(problem("a://x}"), UriProblem::Unopened);
        assert_eq!(problem("a://{+x}"), UriProblem::BadHole("+x".into()));
        assert_eq!(problem("a://{x}-{x}"), UriProblem::Twice("x".into()));
        assert_eq!(
            problem("a://{x}{y}"),
            UriProblem::Adjacent("x".into(), "y".into())
        );
    }

    #[test]
    fn adversarial_uris_are_refused_fast() {
        let holes: String = (0..200).map(|at| format!("{{h{at}}}aab")).collect();
        let pattern = UriPattern::parse(&format!("a://{holes}!")).unwrap();
        let began = Instant::now();
        assert_eq!(pattern.fit(&format!("a://{}", "a".repeat(100_000))), None);
        assert_eq!(pattern.fit(&format!("a://{}", "aab".repeat(33_000))), None);
        assert_eq!(
            pattern.fit(&format!("a://{}", "xaab/".repeat(20_000))),
            None
        );
        assert!(began.elapsed() < Duration::from_millis(250));
    }

    /// What the holes mean, tried out letter by letter.
    fn fits_slowly(parts: &[Part], uri: &str) -> bool {
        match parts {
            [] => uri.is_empty(),
            [Part::Text(text), rest @ ..] => uri
                .strip_prefix(text.as_str())
                .is_some_and(|it| fits_slowly(rest, it)),
            [Part::Hole(_), rest @ ..] => uri
                .char_indices()
                .map(|(at, c)| (at + c.len_utf8(), c))
                .take_while(|(_, c)| *c != '/')
                .any(|(end, _)| fits_slowly(rest, &uri[end..])),
        }
    }

    fn pattern() -> impl Strategy<Value = UriPattern> {
        let text = "[ab/-]{1,3}";
        (text, proptest::collection::vec(text, 0..4), any::<bool>()).prop_map(
            |(first, texts, open)| {
                let mut written = format!("a:{first}");
                for (at, text) in texts.iter().enumerate() {
                    written.push_str(&format!("{{h{at}}}{text}"));
                }
                if open {
                    written.push_str("{last}");
                }
                UriPattern::parse(&written).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn it_fits_when_there_is_a_way(pattern in pattern(), tail in "[ab/-]{0,14}") {
            let uri = format!("a:{tail}");
            prop_assert_eq!(pattern.fit(&uri).is_some(), fits_slowly(&pattern.parts, &uri));
        }

        #[test]
        fn what_was_filled_makes_the_uri_again(pattern in pattern(), tail in "[ab/-]{0,14}") {
            let uri = format!("a:{tail}");
            if let Some(filled) = pattern.fit(&uri) {
                let made: String = pattern.parts.iter().map(|part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Hole(name) => filled[name].as_str().unwrap().to_owned(),
                }).collect();
                prop_assert_eq!(made, uri);
                prop_assert!(filled.values().all(|it| !it.as_str().unwrap().contains('/')));
            }
        }

        #[test]
        fn filled_holes_are_found_again(pattern in pattern(), fill in "[ab-]{1,3}") {
            let uri: String = pattern.parts.iter().map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Hole(_) => fill.clone(),
            }).collect();
            prop_assert!(pattern.fit(&uri).is_some());
        }

        #[test]
        fn noise_is_refused_or_read(text in ".{0,30}", uri in ".{0,30}") {
            if let Ok(pattern) = UriPattern::parse(&text) {
                let _ = pattern.fit(&uri);
            }
        }
    }
}
