//! The way back: arguments that a model made for a told schema, as the tool's own schema wants them.

use serde_json::Value;

/// What was done to a schema, for the values that answer to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Undo {
    Same,
    /// The value is given as JSON text.
    Text,
    Fields(Vec<Field>),
    Items(Box<Undo>),
    /// One of several, and which of them only the value tells.
    Either(Vec<Undo>),
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
                let changed = all.iter().map(|it| it.apply(value.clone()));
                changed.into_iter().find(|it| *it != value).unwrap_or(value)
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
            Undo::Either(all) => all.iter().all(Undo::is_idle),
        }
    }
}
