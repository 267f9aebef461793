//! Names of tools: what a directory may be called, and which letters nobody can see.

use std::collections::HashSet;

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

/// What models are shown for each of these names, in order: only letters, digits, `_` and `-`, and no
/// two alike, also not to those who fold case and dashes.
pub fn for_models<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut taken = HashSet::new();
    // Whoever can keep its name keeps it, so that a name never comes to mean another tool.
    let kept: Vec<Option<String>> = names
        .iter()
        .map(|name| (is_model_safe(name) && taken.insert(fold(name))).then(|| (*name).to_owned()))
        .collect();
    let own: HashSet<&str> = names.iter().copied().collect();
    let mut change = |name: &str| {
        let mut safe = String::new();
        for c in name.chars() {
            match c {
                _ if c.is_ascii_alphanumeric() || c == '_' || c == '-' => safe.push(c),
                '.' => safe.push('_'),
                // By its number, or another name of the same length would be shown the same.
                _ => safe += &format!("_{:x}_", c as u32),
            }
        }
        safe.truncate(MAX_NAME);
        let mut shown = safe.clone();
        let mut count = 2;
        while own.contains(shown.as_str()) || !taken.insert(fold(&shown)) {
            let number = format!("_{count}");
            shown = safe[..safe.len().min(MAX_NAME - number.len())].to_owned() + &number;
            count += 1;
        }
        shown
    };
    names
        .iter()
        .zip(kept)
        .map(|(name, kept)| kept.unwrap_or_else(|| change(name)))
        .collect()
}

/// The one of these names that somebody could take the new one for, or that models are shown so.
pub fn look_alike<'a>(new: &str, names: &[&'a str]) -> Option<&'a str> {
    let new = fold(new);
    let shown = for_models(names.iter().copied());
    names
        .iter()
        .zip(&shown)
        .find(|(own, shown)| fold(own) == new || fold(shown) == new)
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
            for_models(["a.b", "a-b", "A_b", "Käse", "a_b_2"]),
            ["a_b_3", "a-b", "A_b_4", "K_e4_se", "a_b_2"]
        );
        assert_eq!(for_models(["X", "x", "x_2"]), ["X", "x_3", "x_2"]);
        let long = "x".repeat(64);
        let shown = for_models([long.as_str(), long.as_str()]);
        assert!(shown.iter().all(|it| is_model_safe(it)));
        assert_ne!(shown[0], shown[1]);
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
