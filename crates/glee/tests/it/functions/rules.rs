//! What each provider demands of a schema, written down apart from the code that makes them.

use glee::dialect::function::Format;
use glee_core::schema::Schema;
use serde_json::{Map, Value};

/// Everything that the provider would refuse.
pub(super) fn problems(format: Format, strict: bool, schema: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    match (format, schema) {
        (Format::Gemini, None) => {}
        (_, None) => found.push("there is no schema".to_owned()),
        (Format::Gemini, Some(schema)) => gemini(schema, "", 0, &mut found),
        (Format::OpenAi | Format::OpenAiResponses | Format::ToolResult, Some(schema)) => {
            match strict {
                true => openai_strict(schema, "", 0, &mut found),
                false => openai(schema, &mut found),
            }
        }
        (Format::Anthropic, Some(schema)) => anthropic(schema, strict, &mut found),
    }
    found
}

fn openai_strict(schema: &Value, at: &str, depth: usize, found: &mut Vec<String>) {
    const KNOWN: [&str; 16] = [
        "type",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "anyOf",
        "pattern",
        "format",
        "multipleOf",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "minItems",
    ];
    let Some(map) = schema.as_object() else {
        return found.push(format!("{at} is no object"));
    };
    if depth == 0 && map.get("type") != Some(&"object".into()) {
        found.push("the root is not of type object".to_owned());
    }
    if depth > 10 {
        found.push(format!("{at} is nested too deep"));
    }
    for key in map
        .keys()
        .filter(|it| !KNOWN.contains(&it.as_str()) && *it != "maxItems")
    {
        found.push(format!("{at} has {key}"));
    }
    if let Some(Value::Array(all)) = map.get("anyOf") {
        for (number, one) in all.iter().enumerate() {
            openai_strict(one, &format!("{at}/anyOf/{number}"), depth.max(1), found);
        }
        return;
    }
    let kinds = kinds(map);
    if kinds.is_empty() {
        found.push(format!("{at} has no type"));
    }
    if kinds.contains(&"object") {
        let properties = map.get("properties").and_then(Value::as_object);
        let Some(properties) = properties else {
            return found.push(format!("{at} has no properties"));
        };
        if map.get("additionalProperties") != Some(&false.into()) {
            found.push(format!("{at} is open"));
        }
        let names: Value = properties.keys().cloned().collect();
        if map.get("required") != Some(&names) {
            found.push(format!("{at} does not require all"));
        }
        for (name, inner) in properties {
            openai_strict(inner, &format!("{at}/{name}"), depth + 1, found);
        }
    }
    if kinds.contains(&"array") {
        match map.get("items") {
            Some(items) => openai_strict(items, &format!("{at}/*"), depth + 1, found),
            None => found.push(format!("{at} has no items")),
        }
    }
    if map
        .get("enum")
        .and_then(Value::as_array)
        .is_some_and(|it| it.is_empty() || it.len() > 1000)
    {
        found.push(format!("{at} lists nothing or too much"));
    }
}

fn openai(schema: &Value, found: &mut Vec<String>) {
    root(schema, &["anyOf", "oneOf", "allOf", "not", "enum"], found);
    walk(schema, &mut |map| {
        if map.get("type") == Some(&"array".into()) && !map.contains_key("items") {
            found.push(format!("a list has no items: {map:?}"));
        }
    });
}

fn anthropic(schema: &Value, strict: bool, found: &mut Vec<String>) {
    root(schema, &["anyOf", "oneOf", "allOf"], found);
    // It is held against the draft itself.
    match Schema::new(schema.clone()) {
        Ok(schema) => {
            if let Err(err) = schema.compile() {
                found.push(format!("it is no JSON Schema: {err}"));
            }
        }
        Err(errors) => found.push(format!("it is no JSON Schema: {errors:?}")),
    }
    for name in schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|it| it.0)
    {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_good) {
            found.push(format!("{name} is no name"));
        }
    }
    if strict {
        walk_schemas(schema, &mut |map| {
            if kinds(map).contains(&"object")
                && map.get("additionalProperties") != Some(&false.into())
            {
                found.push(format!("an object is open: {map:?}"));
            }
            for key in [
                "minimum",
                "maximum",
                "multipleOf",
                "minLength",
                "maxLength",
                "maxItems",
                "pattern",
                "oneOf",
                "not",
                "if",
                "$ref",
            ] {
                if map.contains_key(key) {
                    found.push(format!("it has {key}"));
                }
            }
        });
    }
}

fn gemini(schema: &Value, at: &str, depth: usize, found: &mut Vec<String>) {
    const KNOWN: [&str; 19] = [
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    const TYPES: [&str; 6] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"];
    let Some(map) = schema.as_object() else {
        return found.push(format!("{at} is no object"));
    };
    for key in map.keys().filter(|it| !KNOWN.contains(&it.as_str())) {
        found.push(format!("{at} has {key}"));
    }
    let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
    if !TYPES.contains(&kind) || (depth == 0 && kind != "OBJECT") {
        found.push(format!("{at} is of type {kind}"));
    }
    if let Some(listed) = map.get("enum")
        && (kind != "STRING" || !listed.as_array().unwrap().iter().all(Value::is_string))
    {
        found.push(format!("{at} lists what is no text"));
    }
    if kind == "OBJECT" {
        let properties = map.get("properties").and_then(Value::as_object);
        match properties {
            Some(properties) if !properties.is_empty() => {
                for (name, inner) in properties {
                    gemini(inner, &format!("{at}/{name}"), depth + 1, found);
                }
            }
            _ => found.push(format!("{at} has no properties")),
        }
        for name in map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if properties.is_none_or(|it| !it.contains_key(name.as_str().unwrap())) {
                found.push(format!("{at} requires {name}, which it does not have"));
            }
        }
    }
    for key in [
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
    ] {
        if map.get(key).is_some_and(|it| !it.is_string()) {
            found.push(format!("{at} has {key} as a number"));
        }
    }
    if kind == "ARRAY" {
        match map.get("items") {
            Some(items) => gemini(items, &format!("{at}/*"), depth + 1, found),
            None => found.push(format!("{at} has no items")),
        }
    }
}

fn root(schema: &Value, forbidden: &[&str], found: &mut Vec<String>) {
    if schema["type"] != "object" {
        found.push("the root is not of type object".to_owned());
    }
    for key in forbidden {
        if schema.get(key).is_some() {
            found.push(format!("{key} stands at the root"));
        }
    }
    walk(schema, &mut |map| {
        if let Some(Value::String(to)) = map.get("$ref")
            && !leads_somewhere(to, schema)
        {
            found.push(format!("{to} leads nowhere"));
        }
    });
}

fn leads_somewhere(to: &str, schema: &Value) -> bool {
    let Some(fragment) = to.strip_prefix('#') else {
        return false;
    };
    let escapes = [("%20", " "), ("%24", "$"), ("%C3%A4", "ä")];
    let undone = |text: String, it: (&str, &str)| text.replace(it.0, it.1);
    let fragment = escapes.into_iter().fold(fragment.to_owned(), undone);
    if fragment.is_empty() || fragment.starts_with('/') {
        return schema.pointer(&fragment).is_some();
    }
    let mut is_there = false;
    walk(schema, &mut |map| {
        is_there |= map.get("$anchor").is_some_and(|it| *it == fragment);
    });
    is_there
}

fn kinds(map: &Map<String, Value>) -> Vec<&str> {
    match map.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn walk(value: &Value, look: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            look(map);
            map.values().for_each(|it| walk(it, look));
        }
        Value::Array(items) => items.iter().for_each(|it| walk(it, look)),
        _ => {}
    }
}

/// Only where schemas stand, so that a property may be called like a keyword.
fn walk_schemas(schema: &Value, look: &mut impl FnMut(&Map<String, Value>)) {
    let Some(map) = schema.as_object() else {
        return;
    };
    look(map);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties", Value::Object(all)) => {
                all.values().for_each(|it| walk_schemas(it, look))
            }
            ("items", one) => walk_schemas(one, look),
            ("anyOf", Value::Array(all)) => all.iter().for_each(|it| walk_schemas(it, look)),
            _ => {}
        }
    }
}
