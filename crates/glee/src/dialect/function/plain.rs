//! A schema told as its author wrote it, for providers that read most of JSON Schema: only what they
//! refuse at the root is told in another way.

use glee_core::schema;
use serde_json::{Map, Value};

use super::fit::{Loss, Told};
use super::fold::{Folding, VALUES, target_of};
use super::tongue::is_plain;
use super::undo::Undo;

/// Keywords that may not stand at the root.
const NOT_AT_THE_ROOT: &[&str] = &["anyOf", "oneOf", "allOf", "not", "enum", "const"];

/// `Err` says why a tool with such arguments cannot be told at all.
pub(super) fn told(source: &Value, plain_names: bool) -> Result<Told, String> {
    let mut folding = Folding::new(source);
    let mut schema = folding.root();
    let mut losses = folding.losses;
    // Others may refer to these.
    if let Some(shared) = source.get("$defs") {
        schema.insert("$defs".into(), shared.clone());
    }
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
                at: format!("/{}", schema::escape(&name)),
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
    schema::show(&mut whole);
    give_items(&mut whole);
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
                let is_lost = to.starts_with('#') && target_of(to, root).is_none();
                is_lost.then(|| to.clone())
            }
            other => dangling(other, root),
        }),
        Value::Array(items) => items.iter().find_map(|it| dangling(it, root)),
        _ => None,
    }
}

/// Says of every list that it has items.
fn give_items(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_list = map.get("type").is_some_and(|it| match it {
                Value::Array(kinds) => kinds.contains(&"array".into()),
                kind => kind == "array",
            });
            if is_list && !map.contains_key("items") {
                map.insert("items".into(), Map::new().into());
            }
            map.iter_mut()
                .filter(|(key, _)| !VALUES.contains(&key.as_str()))
                .for_each(|(_, it)| give_items(it));
        }
        Value::Array(items) => items.iter_mut().for_each(give_items),
        _ => {}
    }
}
