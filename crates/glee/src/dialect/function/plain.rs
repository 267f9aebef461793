//! A schema told as its author wrote it, for providers that read most of JSON Schema: only what they
//! refuse at the root is told in another way.

use glee_core::name::{is_hidden, visible};
use serde_json::{Map, Value};

use super::fit::{Loss, Told, flat_root};
use super::tongue::is_plain;
use super::undo::Undo;

/// Keywords that may not stand at the root.
const NOT_AT_THE_ROOT: &[&str] = &["anyOf", "oneOf", "allOf", "not", "enum", "const"];

/// Keywords whose values are no schemas.
const VALUES: &[&str] = &["default", "const", "enum", "examples"];

/// `Err` says why a tool with such arguments cannot be told at all.
pub(super) fn told(source: &Value, plain_names: bool) -> Result<Told, String> {
    let (mut schema, mut losses) = flat_root(source);
    for keyword in NOT_AT_THE_ROOT {
        if schema.shift_remove(*keyword).is_some() {
            losses.push(Loss {
                at: String::new(),
                what: format!("`{keyword}` of all arguments together is not told"),
            });
        }
    }
    schema.shift_remove("$schema");
    schema.insert("type".into(), "object".into());
    let required: Vec<Value> = match schema.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Map::new().into());
    if let (Value::Object(properties), true) = (properties, plain_names) {
        let odd: Vec<String> = properties
            .keys()
            .filter(|it| !is_plain(it))
            .cloned()
            .collect();
        for name in odd {
            if required.contains(&name.as_str().into()) {
                return Err(format!("`{name}` is no name for an argument there"));
            }
            properties.shift_remove(&name);
            losses.push(Loss {
                at: format!("/{}", glee_core::schema::escape(&name)),
                what: "it is left out: it is no name for an argument there".to_owned(),
            });
        }
    }
    let mut whole = Value::Object(schema);
    if let Some(lost) = dangling(&whole, &whole) {
        return Err(format!(
            "what `{lost}` refers to stands where it cannot be told"
        ));
    }
    tidy(&mut whole);
    let Value::Object(schema) = whole else {
        return Err("its arguments are no object".to_owned());
    };
    Ok(Told {
        schema,
        undo: Undo::Same,
        losses,
    })
}

/// A reference that leads nowhere any more.
fn dangling(schema: &Value, root: &Value) -> Option<String> {
    match schema {
        Value::Object(map) => map.iter().find_map(|(key, value)| match value {
            _ if VALUES.contains(&key.as_str()) => None,
            Value::String(to) if key == "$ref" => {
                let pointer = to
                    .strip_prefix('#')
                    .filter(|it| it.is_empty() || it.starts_with('/'));
                let is_lost = pointer.is_some_and(|it| root.pointer(it).is_none());
                is_lost.then(|| to.clone())
            }
            other => dangling(other, root),
        }),
        Value::Array(items) => items.iter().find_map(|it| dangling(it, root)),
        _ => None,
    }
}

/// Takes out what people cannot see, and says of every list that it has items.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_list = map.get("type").is_some_and(|it| match it {
                Value::Array(kinds) => kinds.contains(&"array".into()),
                kind => kind == "array",
            });
            if is_list && !map.contains_key("items") {
                map.insert("items".into(), Map::new().into());
            }
            for (key, value) in map {
                match value {
                    _ if VALUES.contains(&key.as_str()) => {}
                    Value::String(text)
                        if (key == "description" || key == "title") && text.contains(is_hidden) =>
                    {
                        *text = visible(text);
                    }
                    other => tidy(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
