//! A definition as the text of a manifest, in the form in which people write and read them.

use glee_core::name::is_invisible;
use serde_json::{Map, Value};

use super::super::yaml;

/// Reads as just this definition.
pub fn write(definition: &Map<String, Value>) -> String {
    let mut text = String::new();
    map(definition, 0, &mut text);
    let definition = Value::Object(definition.clone());
    match yaml::parse(&text).0.map(|it| it.to_value()) {
        Some(read) if read == definition => text,
        // JSON is YAML too, if not a pleasure to read.
        _ => format!("{definition:#}\n"),
    }
}

fn map(fields: &Map<String, Value>, indent: usize, out: &mut String) {
    for (key, value) in fields {
        out.push_str(&" ".repeat(indent));
        out.push_str(&scalar(key));
        out.push(':');
        below(value, indent, out);
    }
}

/// What comes after a key.
fn below(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            map(fields, indent + 2, out);
        }
        Value::Array(items) if items.iter().any(|it| it.is_object() || it.is_array()) => {
            out.push('\n');
            for item in items {
                out.push_str(&" ".repeat(indent + 2));
                out.push('-');
                match item {
                    Value::Object(fields) if !fields.is_empty() => {
                        let mut inner = String::new();
                        map(fields, indent + 4, &mut inner);
                        out.push(' ');
                        out.push_str(inner.trim_start());
                    }
                    other => below(other, indent + 2, out),
                }
            }
        }
        other => {
            out.push(' ');
            out.push_str(&flow(other));
            out.push('\n');
        }
    }
}

/// On one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// Plain where nobody could read it in another way. What cannot be seen is spelled out.
fn scalar(text: &str) -> String {
    const OTHER_MEANINGS: &[&str] = &[
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
    ];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " _./-".contains(c))
        && !OTHER_MEANINGS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => out.push_str(&format!("\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn as_people_write_it() {
        let definition = json!({
            "name": "weather",
            "version": 1,
            "inputs": {"schema": {"type": "object", "required": ["city"], "properties": {}}},
            "exec": {"command": {"entrypoint": "./run.sh", "args": ["--", "${city}", "true"]}},
            "permissions": {},
            "examples": [{"description": "a: b", "params": {"city": "Ulm"}}, {"params": {}}],
            "title": "a\nb\u{202e}",
        });
        assert_eq!(
            write(definition.as_object().unwrap()),
            r#"name: weather
version: 1
inputs:
  schema:
    type: object
    required: [city]
    properties: {}
exec:
  command:
    entrypoint: "./run.sh"
    args: ["--", "${city}", "true"]
permissions: {}
examples:
  - description: "a: b"
    params:
      city: Ulm
  - params: {}
title: "a\nb\U0000202e"
"#
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z:#\\- ]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z:#\\- ]{1,6}", inner), 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in any_value()) {
            let definition = Map::from_iter([("a".to_owned(), value)]);
            let read = yaml::parse(&write(&definition)).0.unwrap().to_value();
            prop_assert_eq!(read, Value::Object(definition));
        }
    }
}
