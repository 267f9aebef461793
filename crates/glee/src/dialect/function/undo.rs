//! The way back: arguments that a model made for a told schema, as the tool's own schema wants them.

use serde_json::{Map, Value};

use super::kind::{kind, kind_of, values};

/// What was done to a schema, for the values that answer to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Undo {
    Same,
    /// The value is given as JSON text.
    Text,
    Fields(Vec<Field>),
    Items(Box<Undo>),
    /// One of several, and which of them only the value tells.
    Either(Vec<(Map<String, Value>, Undo)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) undo: Undo,
    /// Null says that it is left out.
    pub(super) null_is_absent: bool,
}

impl Undo {
    pub(super) fn apply(&self, value: Value) -> Value {
        match (self, value) {
            (Undo::Text, Value::String(text)) => {
                glee_core::json::parse(&text).unwrap_or(Value::String(text))
            }
            (Undo::Fields(fields), Value::Object(mut map)) => {
                for field in fields {
                    let Some(found) = map.get_mut(&field.name) else {
                        continue;
                    };
                    if found.is_null() && field.null_is_absent {
                        map.shift_remove(&field.name);
                    } else {
                        *found = field.undo.apply(found.take());
                    }
                }
                Value::Object(map)
            }
            (Undo::Items(undo), Value::Array(items)) => {
                items.into_iter().map(|it| undo.apply(it)).collect()
            }
            (Undo::Either(all), value) => {
                // What fits as it is was meant as it is.
                if all.iter().any(|(schema, _)| fits(schema, &value)) {
                    return value;
                }
                let undone = all
                    .iter()
                    .map(|(schema, it)| (schema, it.apply(value.clone())));
                let fitting = undone.into_iter().find(|(schema, it)| fits(schema, it));
                fitting.map_or(value, |it| it.1)
            }
            (_, value) => value,
        }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Undo::Same => true,
            Undo::Text => false,
            Undo::Fields(fields) => fields
                .iter()
                .all(|it| it.undo.is_idle() && !it.null_is_absent),
            Undo::Items(undo) => undo.is_idle(),
            Undo::Either(all) => all.iter().all(|it| it.1.is_idle()),
        }
    }
}

/// Whether a value looks like one of this schema: of its type, one of its values, with its properties. Whoever
/// is called checks the rest.
fn fits(schema: &Map<String, Value>, value: &Value) -> bool {
    if values(schema).is_some_and(|it| !it.contains(value)) {
        return false;
    }
    let (wanted, nullable) = kind(schema);
    let is = kind_of(value);
    let of_type = match wanted.as_deref() {
        None => true,
        Some("number") => value.is_number(),
        Some(wanted) => is == wanted,
    };
    if !of_type {
        return nullable && value.is_null();
    }
    let Value::Object(map) = value else {
        return true;
    };
    let required = schema.get("required").and_then(Value::as_array);
    let has = |name: &Value| name.as_str().is_some_and(|it| map.contains_key(it));
    let properties = schema.get("properties").and_then(Value::as_object);
    required.is_none_or(|it| it.iter().all(has))
        && map.iter().all(
            |(name, value)| match properties.and_then(|it| it.get(name)) {
                Some(Value::Object(inner)) => fits(inner, value),
                _ => true,
            },
        )
}
