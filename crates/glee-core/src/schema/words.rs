//! The words of a schema, which models read and people should see.

use serde_json::Value;

use crate::name::{is_hidden, visible};

/// Keywords whose values are no schemas.
const VALUES: &[&str] = &["default", "const", "enum", "examples"];

/// Takes out of a schema's words what people cannot see; what it demands stays as it is.
pub fn show(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    _ if VALUES.contains(&key.as_str()) => {}
                    Value::String(text)
                        if (key == "description" || key == "title") && text.contains(is_hidden) =>
                    {
                        *text = visible(text);
                    }
                    other => show(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(show),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_words_are_changed() {
        let hidden = "a\u{200b}b";
        let mut schema = json!({
            "title": hidden,
            "properties": {"title": {"description": hidden, "const": {"title": hidden}}},
            "anyOf": [{"description": hidden, "pattern": hidden, "default": hidden}],
        });
        show(&mut schema);
        let expected = json!({
            "title": "ab",
            "properties": {"title": {"description": "ab", "const": {"title": hidden}}},
            "anyOf": [{"description": "ab", "pattern": hidden, "default": hidden}],
        });
        assert_eq!(schema, expected);
    }
}
