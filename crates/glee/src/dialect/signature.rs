//! A tool in one line: `name(arg: type, opt?: type) — summary`. What a model reads before it decides
//! to read more.

use glee_core::model::ToolSpec;
use glee_core::name::{spelled_out, visible};
use serde_json::Value;

const LONGEST_SUMMARY: usize = 120;
/// In bytes, of the values that an argument may have; its schema tells the rest.
const LONGEST_CHOICE: usize = 120;

pub fn line(spec: &ToolSpec, shown_as: &str) -> String {
    format!("{} — {}", call(spec, shown_as), summary(&spec.description))
}

/// `name(arg: type, opt?: type)`.
pub fn call(spec: &ToolSpec, shown_as: &str) -> String {
    let inputs: Vec<String> = spec
        .inputs
        .properties()
        .map(|(name, schema)| {
            let optional = if spec.inputs.requires(name) { "" } else { "?" };
            // Names and values are an author's, too, and one line is one tool.
            spelled_out(&format!("{name}{optional}: {}", type_of(schema)))
        })
        .collect();
    format!("{shown_as}({})", inputs.join(", "))
}

/// The first sentence, or as much of it as fits.
pub fn summary(description: &str) -> String {
    let flat = visible(description)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let sentence = flat.split_inclusive(". ").next().unwrap_or_default();
    let sentence = sentence.trim().trim_end_matches('.');
    match sentence.char_indices().nth(LONGEST_SUMMARY) {
        Some((at, _)) => format!("{}…", &sentence[..at]),
        None => sentence.to_owned(),
    }
}

/// About how many tokens a text is; models differ, and none takes many more than this.
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

fn choice(options: &[Value]) -> String {
    let mut told = String::new();
    for (at, option) in options.iter().enumerate() {
        let option = option.to_string();
        if told.len() + option.len() > LONGEST_CHOICE {
            return told + if at == 0 { "any" } else { "|…" };
        }
        if at > 0 {
            told.push('|');
        }
        told += &option;
    }
    told
}

fn type_of(schema: &Value) -> String {
    if let Some(options) = schema["enum"].as_array() {
        return choice(options);
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("{}[]", type_of(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("|"),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_values_of_a_choice() {
        let long = "x".repeat(200);
        let many: Vec<Value> = (0..1000).map(Value::from).collect();
        for (options, told) in [
            (json!([]), ""),
            (json!(["a", 1, null]), "\"a\"|1|null"),
            (json!(["a", long, "b"]), "\"a\"|…"),
            (json!([long]), "any"),
        ] {
            assert_eq!(type_of(&json!({"enum": options})), told);
        }
        assert!(type_of(&json!({"enum": many})).len() < 200);
    }
}
