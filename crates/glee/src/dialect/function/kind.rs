//! What a schema says of its values, as far as it can be seen at once: their type, the values themselves, the
//! properties they have.

use serde_json::{Map, Value, json};

/// The type that is not null, and whether null is one of the values too.
pub(super) fn kind(schema: &Map<String, Value>) -> (Option<String>, bool) {
    let has = |all: &[&str]| all.iter().any(|it| schema.contains_key(*it));
    match schema.get("type") {
        Some(Value::String(kind)) => (Some(kind.clone()), kind == "null"),
        Some(Value::Array(kinds)) => {
            let null = kinds.iter().any(|it| it == "null");
            let other = kinds
                .iter()
                .filter_map(Value::as_str)
                .find(|it| *it != "null");
            (other.or(null.then_some("null")).map(str::to_owned), null)
        }
        _ => {
            let listed = values(schema).unwrap_or_default();
            let null = listed.iter().any(Value::is_null);
            let mut kinds = listed.iter().filter(|it| !it.is_null()).map(kind_of);
            let first = kinds.next();
            let guessed = match first {
                Some(first) => kinds.all(|it| it == first).then_some(first),
                None if null => Some("null"),
                None if has(&["properties", "required", "additionalProperties"]) => Some("object"),
                None if has(&["items", "prefixItems", "minItems", "maxItems"]) => Some("array"),
                None if has(&["minLength", "maxLength", "pattern", "format"]) => Some("string"),
                None if has(&["minimum", "maximum", "multipleOf"]) => Some("number"),
                None => None,
            };
            (guessed.map(str::to_owned), null)
        }
    }
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn values(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only.clone()]),
        (None, Some(Value::Array(all))) => Some(all.clone()),
        _ => None,
    }
}

pub(super) fn fields(schema: &Map<String, Value>) -> Vec<(String, Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = names(schema.get("required"));
    let mut fields: Vec<(String, Value)> = properties
        .into_iter()
        .flatten()
        .filter(|(_, it)| **it != Value::Bool(false))
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect();
    // What is required and not described can have any value.
    for name in required {
        if !fields.iter().any(|(it, _)| *it == name) {
            fields.push((name, json!(true)));
        }
    }
    fields
}

/// An object whose keys are not known beforehand, and which has no others.
pub(super) fn is_map(schema: &Map<String, Value>) -> bool {
    let open = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => schema.contains_key("patternProperties"),
        Some(_) => true,
    };
    open && fields(schema).is_empty()
}

pub(super) fn names(list: Option<&Value>) -> Vec<String> {
    let names = list.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
