//! Names of tools: what a directory may be called, and which letters nobody can see.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Longest tool name, in characters.
pub const MAX_NAME: usize = 64;

/// Names that begin like this belong to glee's own meta tools.
pub const RESERVED_PREFIX: &str = "glee_";

#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    #[error("a name cannot be empty")]
    Empty,
    #[error("a name has at most {MAX_NAME} characters, this one has {0}")]
    TooLong(usize),
    #[error("a name cannot start with `{0}`")]
    BadStart(char),
    #[error("a name cannot hold {0}")]
    BadCharacter(String),
    #[error("names starting with `{RESERVED_PREFIX}` are reserved for glee")]
    Reserved,
}

/// A tool's name is also a directory's name, a word on command lines and a word in models' contexts,
/// so it must be harmless in all three places.
pub fn check(name: &str) -> Result<(), NameError> {
    let length = name.chars().count();
    if length > MAX_NAME {
        return Err(NameError::TooLong(length));
    }
    match name.chars().next() {
        None => return Err(NameError::Empty),
        Some(first @ ('.' | '-')) => return Err(NameError::BadStart(first)),
        Some(_) => {}
    }
    if let Some(bad) = name.chars().find(|&c| !is_allowed(c)) {
        let shown = if is_invisible(bad) || bad.is_whitespace() {
            format!("the character U+{:04X}", bad as u32)
        } else {
            format!("`{bad}`")
        };
        return Err(NameError::BadCharacter(shown));
    }
    if name.to_ascii_lowercase().starts_with(RESERVED_PREFIX) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

/// Whether models can be shown the name as it is; other names are shown to them in a folded form.
pub fn is_model_safe(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// What models are shown for each of these names, in order: only letters, digits, `_` and `-`, no two alike,
/// also not to those who fold case and dashes, and none like glee's own.
///
/// A name that cannot be shown as it is tells by a hash which one it was. So it is shown the same whatever other
/// names there are, and what is shown for one tool never comes to mean another.
pub fn for_models<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    shown(names, is_model_safe)
}

/// The same where names begin with a letter or `_`.
pub fn for_models_by_letter<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    shown(names, |it| is_model_safe(it) && begins_well(it))
}

/// Letters of the hash of a name; and of one that somebody made look like another by trying many.
const HASH: usize = 8;
const LONG_HASH: usize = 32;

fn shown<'a>(
    names: impl IntoIterator<Item = &'a str>,
    is_safe: impl Fn(&str) -> bool,
) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let is_safe = |it: &str| is_safe(it) && !is_reserved(it);
    let alike = count(names.iter().filter(|it| is_safe(it)).map(|it| fold(it)));
    // Of those that look alike, the one keeps its name that all of them look like.
    let keeps = |it: &str| {
        let folded = fold(it);
        is_safe(it) && (alike[&folded] == 1 || folded == it)
    };
    let first: Vec<String> = names
        .iter()
        .map(|it| match keeps(it) {
            true => (*it).to_owned(),
            false => hashed(it, HASH),
        })
        .collect();
    let alike = count(first.iter().map(|it| fold(it)));
    let last = |(name, first): (&&str, String)| match alike[&fold(&first)] > 1 && !keeps(name) {
        true => hashed(name, LONG_HASH),
        false => first,
    };
    names.iter().zip(first).map(last).collect()
}

fn count(names: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut counted = HashMap::new();
    for name in names {
        *counted.entry(name).or_default() += 1;
    }
    counted
}

/// The name in letters that models can be shown, as far as there is room, and this much of its hash.
fn hashed(name: &str, length: usize) -> String {
    let mut safe = plain(name);
    if is_reserved(&safe) || !begins_well(&safe) {
        safe.insert(0, '_');
    }
    safe.truncate(MAX_NAME - 1 - length);
    let hash = HEXLOWER.encode(&Sha256::digest(name));
    format!("{safe}_{}", &hash[..length])
}

fn begins_well(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn plain(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars() {
        match c {
            _ if c.is_ascii_alphanumeric() || c == '_' || c == '-' => plain.push(c),
            '.' => plain.push('_'),
            _ => plain += &format!("_{:x}_", c as u32),
        }
    }
    plain
}

/// The one of these names that somebody could take the new one for.
pub fn look_alike<'a>(new: &str, names: &[&'a str]) -> Option<&'a str> {
    let new = fold(new);
    let shown = for_models(names.iter().copied());
    names
        .iter()
        .zip(&shown)
        .find(|(own, shown)| [fold(own), fold(&plain(own)), fold(shown)].contains(&new))
        .map(|(own, _)| *own)
}

/// Whether a name looks like one of glee's own.
pub fn is_reserved(name: &str) -> bool {
    fold(name).starts_with(RESERVED_PREFIX)
}

fn fold(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

fn is_allowed(c: char) -> bool {
    c.is_alphanumeric() && !is_invisible(c) || matches!(c, '_' | '-' | '.')
}

/// Characters that show nothing, or that reorder what is shown: control, format, bidi, variation
/// selectors and tags. Text holding them can look like something it is not.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c as u32,
            0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164
            | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
            | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// A name as an error tells it: strangers may send longer ones than anybody wants to read.
pub fn shorten(name: &str) -> String {
    match name.char_indices().nth(2 * MAX_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// What a person who reviews a text cannot see and a model can.
pub fn is_hidden(c: char) -> bool {
    is_invisible(c) && c != '\n' && c != '\t'
}

/// A text without what is hidden in it.
pub fn visible(text: &str) -> String {
    text.chars().filter(|&c| !is_hidden(c)).collect()
}

/// A text as a person must see it: in one line, and what shows nothing, or moves what is shown, spelled
/// out.
pub fn spelled_out(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match is_invisible(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

/// The candidate nearest to a mistyped word, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes so much, and comparing takes time with the square of it.
    if word.len() > 4 * MAX_NAME {
        return None;
    }
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .map(|it| (strsim::jaro_winkler(&folded, &it.to_lowercase()), it))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        for good in ["web_search", "a", "Käse", "x-1", "v1.2"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-rf",
            "a/b",
            "a\nb",
            "a\u{202e}b",
            "a b",
            "glee_x",
            "GLEE_x",
            "a\\b",
            "a\u{200b}",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert_eq!(check(&"x".repeat(65)), Err(NameError::TooLong(65)));
    }

    #[test]
    fn names_for_models() {
        assert_eq!(
            for_models(["a.b", "a-b", "A_b", "a_b", "Käse", "7zip", "gleeful"]),
            [
                "a_b_2e7336dc",
                "a-b_d44362d6",
                "A_b_08eb65ad",
                "a_b",
                "K_e4_se_f9eeb52c",
                "7zip",
                "gleeful"
            ]
        );
        // Two that look alike, and neither is what both look like.
        let shown = for_models(["X-y", "x_Y"]);
        assert!(shown[0].starts_with("X-y_") && shown[1].starts_with("x_Y_"));
        assert_eq!(for_models(["X-y"]), ["X-y"]);
        assert_eq!(
            for_models_by_letter(["7zip", "zip"])[0].find("_7zip_"),
            Some(0)
        );
    }

    #[test]
    fn names_of_glee_are_nobody_elses() {
        for name in ["glee_tool_create", "glee.tool.create", "GLEE-x", "Glee.x"] {
            let shown = &for_models([name])[0];
            assert!(shown.starts_with('_') && !is_reserved(shown), "{shown}");
        }
    }

    /// Somebody tried until the hashes of two names began alike.
    #[test]
    fn names_whose_hashes_begin_alike() {
        let shown = for_models(["a.b", "a_b_2e7336dc"]);
        assert_eq!(shown[1], "a_b_2e7336dc");
        assert!(shown[0].starts_with("a_b_2e7336dc") && shown[0].len() > 32);
    }

    proptest! {
        /// A name that must be changed is shown the same, whatever others there are, and never as another.
        #[test]
        fn names_for_models_stay(
            names in proptest::collection::btree_set("[aAbB._ä-]{1,4}|[a.]{62,66}|glee[._-]a", 1..20)
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shown = for_models(names.iter().copied());
            let folded: std::collections::HashSet<String> = shown.iter().map(|it| fold(it)).collect();
            prop_assert_eq!(folded.len(), names.len());
            for (name, shown) in names.iter().zip(&shown) {
                prop_assert!(is_model_safe(shown) && !is_reserved(shown), "{}", shown);
                let alone = &for_models([*name])[0];
                match is_model_safe(name) && !is_reserved(name) {
                    false => prop_assert_eq!(alone, shown),
                    true => {
                        prop_assert_eq!(alone, name);
                        let hashed = hashed(name, HASH);
                        prop_assert!(shown == name || *shown == hashed, "{}", shown);
                    }
                }
            }
        }
    }

    #[test]
    fn names_that_look_alike() {
        let names = ["web_search", "a.b", "Käse"];
        for (new, like) in [
            ("web_search", Some("web_search")),
            ("Web-Search", Some("web_search")),
            ("a_b", Some("a.b")),
            ("A-B", Some("a.b")),
            ("k_e4_se", Some("Käse")),
            ("k_se", None),
            ("web_search_2", None),
            ("websearch", None),
        ] {
            assert_eq!(look_alike(new, &names), like, "{new}");
        }
        assert!(is_reserved("Glee-tool") && !is_reserved("gleeful"));
    }

    #[test]
    fn nearest_word() {
        assert_eq!(nearest("serch", ["search", "delete"]), Some("search"));
        assert_eq!(nearest("zzz", ["search", "delete"]), None);
    }
}
