//! An example's expected output: exact JSON, or a subset with `...` for what does not matter.
//!
//! `"..."` stands for any value, a bare `...` in a list or object for any further ones; in text,
//! a line `...` stands for any lines.

use serde_json::Value;

use crate::json::{self, JsonError};
use crate::model::{Example, Format, ToolSpec};
use crate::outcome::Output;

/// Stands for a bare `...` once the text is JSON. No document can hold it by accident.
const REST: &str = "\u{0}rest";
const ANYTHING: &str = "...";

#[derive(Clone, Debug, PartialEq)]
pub struct Expected(Value);

impl Expected {
    /// Reads JSON that may hold bare `...`.
    pub fn parse(text: &str) -> Result<Expected, JsonError> {
        json::parse(&with_rest_quoted(text)).map(Expected)
    }

    /// The value without the bare `...`, as far as it can be checked against a schema.
    pub fn sample(&self) -> Value {
        without_rest(&self.0)
    }

    /// Whether any part was left open.
    pub fn is_exact(&self) -> bool {
        fn open(value: &Value) -> bool {
            match value {
                Value::String(text) => text == REST || text == ANYTHING,
                Value::Array(items) => items.iter().any(open),
                Value::Object(map) => map.iter().any(|(key, it)| key == REST || open(it)),
                _ => false,
            }
        }
        !open(&self.0)
    }

    /// The first place where the actual value is not as expected, or nothing.
    pub fn difference(&self, actual: &Value) -> Option<String> {
        difference(&self.0, actual, "")
    }
}

/// Whether the output is what an example of the tool promises; an `Err` says what is not.
pub fn compare(spec: &ToolSpec, example: &Example, output: &Output) -> Result<(), String> {
    if !output.warnings.is_empty() {
        return Err(output.warnings.join("; "));
    }
    let Some(expected) = &example.expected else {
        return Ok(());
    };
    match (spec.outputs.format, &output.value) {
        (Format::Text, Value::String(actual)) if text_matches(expected, actual) => Ok(()),
        (Format::Text, actual) => Err(format!("expected {expected:?}, got {actual}")),
        (Format::Json | Format::Content, actual) => match Expected::parse(expected) {
            Err(err) => Err(format!("expected_output is {err}")),
            Ok(expected) => expected.difference(actual).map_or(Ok(()), Err),
        },
    }
}

/// Compares text line by line, without trailing white space; a line `...` stands for any lines.
pub fn text_matches(expected: &str, actual: &str) -> bool {
    fn lines(text: &str) -> Vec<&str> {
        text.trim_end().lines().map(str::trim_end).collect()
    }
    let (expected, actual) = (lines(expected), lines(actual));
    let (mut at, mut here) = (0, 0);
    // The last `...`, and the line up to which it stands for lines. Only the last one ever needs to
    // stand for more, so nothing is tried twice.
    let mut open: Option<(usize, usize)> = None;
    while here < actual.len() {
        match (expected.get(at), open) {
            (Some(&ANYTHING), _) => {
                open = Some((at, here));
                at += 1;
            }
            (Some(line), _) if *line == actual[here] => {
                at += 1;
                here += 1;
            }
            (_, Some((dots, until))) => {
                open = Some((dots, until + 1));
                at = dots + 1;
                here = until + 1;
            }
            (_, None) => return false,
        }
    }
    expected[at..].iter().all(|it| *it == ANYTHING)
}

fn difference(expected: &Value, actual: &Value, pointer: &str) -> Option<String> {
    let differs = || {
        let place = if pointer.is_empty() {
            String::new()
        } else {
            format!("at {pointer}: ")
        };
        Some(format!("{place}expected {expected}, got {actual}").replace("\\u0000rest", "..."))
    };
    match (expected, actual) {
        (Value::String(text), _) if text == ANYTHING => None,
        (Value::Array(items), Value::Array(got)) => {
            let open = items.last().is_some_and(|it| it == REST);
            let items = if open {
                &items[..items.len() - 1]
            } else {
                items
            };
            if got.len() < items.len() || (!open && got.len() > items.len()) {
                return differs();
            }
            items
                .iter()
                .zip(got)
                .enumerate()
                .find_map(|(at, (item, got))| difference(item, got, &format!("{pointer}/{at}")))
        }
        (Value::Object(map), Value::Object(got)) => {
            let open = map.contains_key(REST);
            if !open && got.keys().any(|key| !map.contains_key(key)) {
                return differs();
            }
            map.iter()
                .filter(|(key, _)| *key != REST)
                .find_map(|(key, item)| match got.get(key) {
                    Some(got) => difference(item, got, &format!("{pointer}/{key}")),
                    None => differs(),
                })
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        _ if expected == actual => None,
        _ => differs(),
    }
}

fn without_rest(value: &Value) -> Value {
    match value {
        Value::Array(items) => items
            .iter()
            .filter(|it| *it != REST)
            .map(without_rest)
            .collect(),
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != REST)
            .map(|(key, it)| (key.clone(), without_rest(it)))
            .collect(),
        other => other.clone(),
    }
}

/// Turns a bare `...` into something JSON has: an element of a list, a field of an object.
fn with_rest_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open = Vec::new();
    let mut in_string = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if in_string && c == '\\' {
            let end = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        if !in_string && rest.starts_with("...") {
            out.push_str(match open.last() {
                Some('{') => "\"\\u0000rest\": null",
                _ => "\"\\u0000rest\"",
            });
            rest = &rest[3..];
            continue;
        }
        match c {
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => open.push(c),
            ']' | '}' if !in_string => {
                open.pop();
            }
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(expected: &str, actual: Value) -> bool {
        Expected::parse(expected)
            .unwrap()
            .difference(&actual)
            .is_none()
    }

    #[test]
    fn exact_and_open() {
        assert!(fits(r#"{"a": 1}"#, json!({"a": 1})));
        assert!(!fits(r#"{"a": 1}"#, json!({"a": 1, "b": 2})));
        assert!(fits(r#"{"a": 1, ...}"#, json!({"a": 1, "b": 2})));
        assert!(fits(r#"[{"t": "..."}, ...]"#, json!([{"t": "x"}, 2, 3])));
        assert!(!fits(r#"[{"t": "..."}]"#, json!([{"t": "x"}, 2])));
        assert!(!fits(r#"[1, ...]"#, json!([])));
        assert!(fits("[...]", json!([])));
        assert!(fits("...", json!({"any": "thing"})) || Expected::parse("...").is_ok());
        assert!(fits(r#"{"a...": "x\"..."}"#, json!({"a...": "x\"..."})));
        assert!(fits("1", json!(1.0)));
        assert!(Expected::parse("[1,").is_err());
    }

    #[test]
    fn the_difference_has_a_place() {
        let expected = Expected::parse(r#"{"a": [1, 2]}"#).unwrap();
        assert_eq!(
            expected.difference(&json!({"a": [1, 3]})),
            Some("at /a/1: expected 2, got 3".into())
        );
        assert!(expected.is_exact() && !Expected::parse("[...]").unwrap().is_exact());
        assert_eq!(
            Expected::parse(r#"[{"a": 1, ...}, ...]"#).unwrap().sample(),
            json!([{"a": 1}])
        );
    }

    #[test]
    fn text() {
        assert!(text_matches("a\nb\n", "a  \nb"));
        assert!(text_matches("a\n...\nz", "a\nb\nc\nz\n"));
        assert!(!text_matches("a", "a\nb"));
        assert!(text_matches("...", ""));
        assert!(text_matches("...\nb\n...\nb", "a\nb\nc\nb\nb"));
        assert!(!text_matches("...\nb\nc", "b\nb\nc\nd"));
        // Trying every length for every `...` would not end.
        assert!(!text_matches(&"...\nx\n".repeat(30), &"x\n".repeat(29)));
        assert!(!text_matches(
            &"...\nx\n".repeat(30),
            &format!("{}y", "x\n".repeat(2000))
        ));
    }
}
