//! JSON as it was written: no duplicate key is dropped, no number is rounded.
//!
//! A parser that keeps the last of two equal keys lets a person approve one thing and a tool do
//! another; one that turns a long integer into a float changes an account number.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// A double keeps so many significant digits.
const DIGITS_OF_A_DOUBLE: usize = 17;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    #[error("not JSON: {0}")]
    Syntax(String),
    #[error(
        "the number {0} has more digits than can be kept and would be rounded; send it as a string instead"
    )]
    Inexact(String),
}

/// Reads one JSON value strictly.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    let value = strict(text)?;
    match changed_numbers(text).first() {
        Some(place) => Err(JsonError::Inexact(text[place.clone()].to_owned())),
        None => Ok(value),
    }
}

/// Reads what a tool or a service gave, which nobody can ask to write it otherwise: a number that
/// would be rounded comes back as its digits in a string, and of two equal keys the last one counts.
/// What had to be changed is told.
pub fn parse_output(text: &str) -> Result<(Value, Vec<String>), JsonError> {
    let mut notes = Vec::new();
    let places = changed_numbers(text);
    let text = match places.first() {
        None => Cow::Borrowed(text),
        Some(first) => {
            notes.push(format!(
                "the number {} would be rounded and is given as a string",
                &text[first.clone()]
            ));
            Cow::Owned(with_quotes(text, &places))
        }
    };
    match strict(&text) {
        Ok(value) => Ok((value, notes)),
        Err(err) => match serde_json::from_str(&text) {
            Ok(value) => {
                notes.push("a key stands twice in one object; the last one counts".to_owned());
                Ok((value, notes))
            }
            Err(_) => Err(err),
        },
    }
}

fn strict(text: &str) -> Result<Value, JsonError> {
    serde_json::from_str::<Strict>(text)
        .map(|strict| strict.0)
        .map_err(|err| JsonError::Syntax(err.to_string()))
}

/// The same JSON in lines, every number and every text as it was written. Of two equal keys no reader could tell
/// which one counts, so they are refused.
pub fn indented(text: &str) -> Result<String, JsonError> {
    serde_json::from_str::<de::IgnoredAny>(text)
        .map_err(|err| JsonError::Syntax(err.to_string()))?;
    let tokens: Vec<Range<usize>> = tokens(text).collect();
    // A number that no machine holds is no reason to refuse it: only keys are looked at.
    let mut keys = text.as_bytes().to_vec();
    for token in tokens.iter().filter(|it| is_number(&text[(*it).clone()])) {
        keys[token.clone()].fill(b' ');
        keys[token.start] = b'0';
    }
    strict(&String::from_utf8_lossy(&keys))?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut before = "";
    for token in tokens.into_iter().map(|it| &text[it]) {
        let closes = matches!(token, "}" | "]");
        depth -= usize::from(closes);
        let opened = matches!(before, "{" | "[");
        if before == "," || opened != closes && (opened || closes) {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        } else if before == ":" {
            out.push(' ');
        }
        out.push_str(token);
        depth += usize::from(matches!(token, "{" | "["));
        before = token;
    }
    Ok(out)
}

fn is_number(token: &str) -> bool {
    let is_digit = |it: &u8| it.is_ascii_digit() || *it == b'-';
    token.as_bytes().first().is_some_and(is_digit)
        && token
            .bytes()
            .all(|it| is_digit(&it) || b"+.eE".contains(&it))
}

/// The one form of a value that hashes are made of: keys in order, nothing between.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

pub fn canonical_object(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_canonical_object(map, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => write_canonical_object(map, out),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn write_canonical_object(map: &Map<String, Value>, out: &mut String) {
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_by_key(|it| it.0);
    out.push('{');
    for (at, (key, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(key.as_str()).to_string());
        out.push(':');
        write_canonical(value, out);
    }
    out.push('}');
}

/// How deeply a value nests: a scalar is 0.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The length of the longest list or object.
pub fn width(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(width).fold(items.len(), usize::max),
        Value::Object(map) => map.values().map(width).fold(map.len(), usize::max),
        _ => 0,
    }
}

/// How many values there are in a value, itself included.
pub fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// The numbers, outside strings, that would not come out as they went in: integers that 64 bits do not
/// hold, and fractions with more digits than a double has.
fn changed_numbers(text: &str) -> Vec<Range<usize>> {
    let is_changed = |it: &Range<usize>| {
        let token = &text[it.clone()];
        is_number(token) && !survives(token)
    };
    tokens(text).filter(is_changed).collect()
}

/// The words and signs of a text, where it is JSON; of any other text, some parts of it.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at)?.is_ascii_whitespace() {
            at += 1;
        }
        let start = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at += 1,
            _ => {
                let ends = |it: &u8| it.is_ascii_whitespace() || b"{}[],:\"".contains(it);
                at += bytes[at..]
                    .iter()
                    .position(ends)
                    .unwrap_or(bytes.len() - at);
            }
        }
        Some(start..at)
    })
}

fn survives(token: &str) -> bool {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, ""));
    if exponent.is_empty() && !mantissa.contains('.') {
        return token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok();
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len() <= DIGITS_OF_A_DOUBLE
}

fn with_quotes(text: &str, places: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len() + 2 * places.len());
    let mut from = 0;
    for place in places {
        out.push_str(&text[from..place.start]);
        out.push('"');
        out.push_str(&text[place.clone()]);
        out.push('"');
        from = place.end;
    }
    out.push_str(&text[from..]);
    out
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        StrictSeed.deserialize(deserializer).map(Strict)
    }
}

struct StrictSeed;

impl<'de> DeserializeSeed<'de> for StrictSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E: de::Error>(self, it: f64) -> Result<Value, E> {
        Number::from_f64(it)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(Value::String(it.to_owned()))
    }

    fn visit_string<E>(self, it: String) -> Result<Value, E> {
        Ok(Value::String(it))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(StrictSeed)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(StrictSeed)?;
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key `{key}` stands twice"
                )));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Whether two values mean the same: `9`, `9.0` and `90e-1` are one number.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let whole = one.as_i64().zip(other.as_i64());
            let whole = whole.map(|(one, other)| one == other);
            whole.unwrap_or_else(|| one == other || one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, it)| other.get(key).is_some_and(|other| same(it, other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for text in [
            "1",
            "-1",
            "1.5",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in [
            "12345678901234567890123",
            "[-9223372036854775809]",
            "0.12345678901234567890123",
        ] {
            assert!(matches!(parse(text), Err(JsonError::Inexact(_))), "{text}");
        }
        assert_eq!(
            parse(r#""12345678901234567890123""#).unwrap(),
            "12345678901234567890123"
        );
        assert!(parse(r#"{"a\"": 1, "b": 99999999999999999999}"#).is_err());
    }

    #[test]
    fn what_tools_give_is_kept_as_far_as_it_goes() {
        let (value, notes) =
            parse_output(r#"{"id": 123456789012345678901, "x": "1\"2", "f": 0.1}"#).unwrap();
        assert_eq!(
            value.to_string(),
            r#"{"id":"123456789012345678901","x":"1\"2","f":0.1}"#
        );
        assert_eq!(notes.len(), 1);
        let (value, notes) = parse_output(r#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!((value["a"].as_i64(), notes.len()), (Some(2), 1));
        assert!(parse_output("{").is_err());
    }

    #[test]
    fn duplicate_keys_are_refused() {
        assert!(parse(r#"{"a":1,"a":2}"#).is_err());
        assert!(parse(r#"[{"x":{"a":1,"\u0061":2}}]"#).is_err());
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn lines_hold_what_was_written() {
        let text = r#"{"a":[1e400,-0.10, 12345678901234567890123],"b":{},"c":[],"\u0061\/":"x{,\\\"","d":[{"e":null}]}"#;
        let expected = r#"{
  "a": [
    1e400,
    -0.10,
    12345678901234567890123
  ],
  "b": {},
  "c": [],
  "\u0061\/": "x{,\\\"",
  "d": [
    {
      "e": null
    }
  ]
}"#;
        assert_eq!(indented(text).unwrap(), expected);
        assert_eq!(indented(expected).unwrap(), expected);
        assert_eq!(indented(" 1.0 ").unwrap(), "1.0");
        for text in [
            "",
            "{",
            "[1,]",
            "01",
            "1 2",
            r#"{"a":1,"a":2}"#,
            r#"[{"x":{"a":1e400,"\u0061":2}}]"#,
        ] {
            assert!(indented(text).is_err(), "{text}");
        }
        let err = indented("{\"a\": 123456,\n\"a\": 1}")
            .unwrap_err()
            .to_string();
        assert!(err.contains("`a` stands twice at line 2"), "{err}");
    }

    #[test]
    fn bottomless_nesting_is_an_error() {
        assert!(indented(&"[".repeat(100_000)).is_err());
        assert!(indented(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
