//! Slugs and versions: what the tools of bundles are called. They stand in URLs and become file names, so
//! they are held to few kinds of characters, and to one way of writing each.

use std::sync::LazyLock;

use icu_normalizer::ComposingNormalizerBorrowed;
use regex::Regex;
use thiserror::Error;

use crate::name::is_invisible;

/// Longest slug or version, in characters.
pub const MOST: usize = 64;

/// As a pattern of JSON Schema, which knows neither letters that show nothing nor the ways to write one.
pub const SLUG: &str = r"^[\p{L}\p{Nd}][\p{L}\p{Nd}-]*$";
pub const VERSION: &str = r"^(?!\.{1,2}$)[\p{L}\p{Nd}.][\p{L}\p{Nd}.-]*$";

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SlugError {
    #[error("it is empty")]
    Empty,
    #[error("it has {0} characters, and {MOST} are the most")]
    TooLong(usize),
    #[error("it may hold only letters, digits and `-`")]
    Slug,
    #[error("it may hold only letters, digits, `-` and `.`")]
    Version,
    #[error("it cannot begin with `-`")]
    Dash,
    #[error("`.` and `..` are directories")]
    Dots,
    #[error("the same letters can be written in two ways, and it is not in the composed one (NFC)")]
    NotComposed,
}

pub fn check_slug(text: &str) -> Result<(), SlugError> {
    check(text, &['-'], SlugError::Slug)
}

pub fn check_version(text: &str) -> Result<(), SlugError> {
    check(text, &['-', '.'], SlugError::Version)?;
    match text {
        "." | ".." => Err(SlugError::Dots),
        _ => Ok(()),
    }
}

fn is_letter_or_digit(c: char) -> bool {
    // To know all letters takes a while, and most names do without.
    static KNOWN: LazyLock<Regex> = LazyLock::new(|| match Regex::new(r"\A[\p{L}\p{Nd}]\z") {
        Ok(regex) => regex,
        Err(err) => unreachable!("it is a pattern: {err}"),
    });
    match c.is_ascii() {
        true => c.is_ascii_alphanumeric(),
        false => KNOWN.is_match(c.encode_utf8(&mut [0; 4])),
    }
}

fn check(text: &str, besides: &[char], otherwise: SlugError) -> Result<(), SlugError> {
    let length = text.chars().count();
    match length {
        0 => return Err(SlugError::Empty),
        1..=MOST => {}
        _ => return Err(SlugError::TooLong(length)),
    }
    // Some letters show nothing.
    let is_allowed = |c| (besides.contains(&c) || is_letter_or_digit(c)) && !is_invisible(c);
    if !text.chars().all(is_allowed) {
        return Err(otherwise);
    }
    if text.starts_with('-') {
        return Err(SlugError::Dash);
    }
    match ComposingNormalizerBorrowed::new_nfc().is_normalized(text) {
        true => Ok(()),
        false => Err(SlugError::NotComposed),
    }
}

/// What a tool is called in a bundle that is called otherwise elsewhere: `web_search` is `web-search`.
pub fn of_name(name: &str) -> String {
    let name: String = ComposingNormalizerBorrowed::new_nfc()
        .normalize(name)
        .chars()
        .map(|c| match check_slug(c.encode_utf8(&mut [0; 4])) {
            Ok(()) => c,
            Err(_) => '-',
        })
        .take(MOST)
        .collect();
    let slug = name.trim_start_matches('-');
    match slug.is_empty() {
        true => "tool".to_owned(),
        false => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs() {
        for good in [
            "weather",
            "Wetter-7",
            "天气",
            "ärger",
            "٣",
            "a-",
            &"ü".repeat(64),
        ] {
            assert_eq!(check_slug(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", SlugError::Empty),
            (&"ü".repeat(65), SlugError::TooLong(65)),
            ("a_b", SlugError::Slug),
            ("a b", SlugError::Slug),
            ("a.b", SlugError::Slug),
            ("a/b", SlugError::Slug),
            ("a\\b", SlugError::Slug),
            ("a\0", SlugError::Slug),
            ("a\n", SlugError::Slug),
            ("a%2e", SlugError::Slug),
            ("½", SlugError::Slug),
            ("a\u{301}", SlugError::Slug),
            ("\u{3164}", SlugError::Slug),
            ("a\u{202e}b", SlugError::Slug),
            ("😀", SlugError::Slug),
            ("-rf", SlugError::Dash),
            // The sign of the Ångström is a letter that is composed into another one.
            ("\u{212b}", SlugError::NotComposed),
        ] {
            assert_eq!(check_slug(bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn versions() {
        for good in ["1", "v2", "1.2.3", ".5", "2024-05-14", "α"] {
            assert_eq!(check_version(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            (".", SlugError::Dots),
            ("..", SlugError::Dots),
            ("1/2", SlugError::Version),
            ("1_2", SlugError::Version),
            ("../x", SlugError::Version),
            ("", SlugError::Empty),
        ] {
            assert_eq!(check_version(bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn patterns_say_the_same() {
        type Check = fn(&str) -> Result<(), SlugError>;
        let both: [(&str, Check); 2] = [(SLUG, check_slug), (VERSION, check_version)];
        for (pattern, check) in both {
            let schema = serde_json::json!({"pattern": pattern});
            let fits = |it: &str| jsonschema::is_valid(&schema, &it.into());
            for text in [
                "weather", "Wetter-7", "天气", "ärger", "٣", "a-", "-a", "", "a_b", "a b", "a.b",
                ".", "..", "...", ".5", "-.", "a/b", "a\\b", "a\0", "½", "a\u{301}", "😀", "1.2.3",
                "../x",
            ] {
                assert_eq!(fits(text), check(text).is_ok(), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn names_become_slugs() {
        for (name, slug) in [
            ("web_search", "web-search"),
            ("a.b", "a-b"),
            ("_x", "x"),
            ("___", "tool"),
            ("Käse", "Käse"),
        ] {
            assert_eq!(of_name(name), slug);
            assert_eq!(check_slug(&of_name(name)), Ok(()));
        }
    }
}
