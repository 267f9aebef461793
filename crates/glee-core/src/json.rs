//! JSON as it was written: no duplicate key is dropped, no integer is rounded.
//!
//! A parser that keeps the last of two equal keys lets a person approve one thing and a tool do
//! another; one that turns a long integer into a float changes an account number.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    #[error("not JSON: {0}")]
    Syntax(String),
    #[error(
        "the integer {0} does not fit 64 bits and would be rounded; send it as a string instead"
    )]
    Inexact(String),
}

/// Reads one JSON value strictly.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    if let Some(number) = integer_out_of_range(text) {
        return Err(JsonError::Inexact(number.to_owned()));
    }
    serde_json::from_str::<Strict>(text)
        .map(|strict| strict.0)
        .map_err(|err| JsonError::Syntax(err.to_string()))
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

/// Finds the first integer literal, outside strings, that neither i64 nor u64 can hold.
fn integer_out_of_range(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len()
                    && matches!(bytes[at], b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
                {
                    at += 1;
                }
                let token = &text[start..at];
                let is_integer = !token.contains(['.', 'e', 'E']);
                if is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err() {
                    return Some(token);
                }
            }
            _ => at += 1,
        }
    }
    None
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
        for text in ["12345678901234567890123", "[-9223372036854775809]"] {
            assert!(matches!(parse(text), Err(JsonError::Inexact(_))), "{text}");
        }
        assert_eq!(
            parse(r#""12345678901234567890123""#).unwrap(),
            "12345678901234567890123"
        );
        assert!(parse(r#"{"a\"": 1, "b": 99999999999999999999}"#).is_err());
    }

    #[test]
    fn duplicate_keys_are_refused() {
        assert!(parse(r#"{"a":1,"a":2}"#).is_err());
        assert!(parse(r#"[{"x":{"a":1,"\u0061":2}}]"#).is_err());
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn bottomless_nesting_is_an_error() {
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
