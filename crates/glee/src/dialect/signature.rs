//! A tool in one line: `name(arg: type, opt?: type) — summary`. What a model reads before it decides
//! to read more.

use glee_core::model::ToolSpec;
use glee_core::name::visible;
use serde_json::Value;

const LONGEST_SUMMARY: usize = 120;

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
            format!("{name}{optional}: {}", type_of(schema))
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

fn type_of(schema: &Value) -> String {
    if let Some(options) = schema["enum"].as_array() {
        return options
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join("|");
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
