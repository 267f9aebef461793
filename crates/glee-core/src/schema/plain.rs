//! Plain schemas: those that ask for types, names, ranges and little else. Most tools have one, and a
//! value that fits it is seen to fit without compiling anything. Compiling the first schema of a
//! process takes longer than starting the process.
//!
//! Only a yes is given here. What does not fit, or cannot be told, is left to the validator, which
//! knows the reasons; that both agree is a property test.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

/// Whether every part of the schema is understood here, and well-formed.
pub(super) fn is_plain(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return false;
    };
    keywords.iter().all(|(keyword, it)| match keyword.as_str() {
        "type" => it.as_str().is_some_and(is_type),
        "properties" => it
            .as_object()
            .is_some_and(|inner| inner.values().all(is_plain)),
        "items" => is_plain(it),
        "additionalProperties" => it.is_boolean() || is_plain(it),
        "required" => it.as_array().is_some_and(|names| {
            let mut seen = HashSet::new();
            names
                .iter()
                .all(|name| name.as_str().is_some_and(|name| seen.insert(name)))
        }),
        "enum" => it.is_array(),
        "minimum" | "maximum" => it.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" => it.is_u64(),
        "title" | "description" | "$comment" => it.is_string(),
        "default" => true,
        _ => false,
    })
}

fn is_type(name: &str) -> bool {
    matches!(
        name,
        "null" | "boolean" | "object" | "array" | "number" | "string" | "integer"
    )
}

/// Whether the value surely fits a plain schema.
pub(super) fn surely_fits(schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return false;
    };
    keywords.iter().all(|(keyword, it)| match keyword.as_str() {
        "type" => it.as_str().is_some_and(|name| has_type(name, value)),
        "properties" | "additionalProperties" | "required" => match value {
            Value::Object(object) => object_fits(keywords, keyword, it, object),
            _ => true,
        },
        "items" => match value {
            Value::Array(items) => items.iter().all(|item| surely_fits(it, item)),
            _ => true,
        },
        "enum" => it.as_array().is_some_and(|options| options.contains(value)),
        "minimum" => in_range(it, value, |least, number| least <= number),
        "maximum" => in_range(it, value, |most, number| most >= number),
        "minLength" => measured(it, length(value), |least, is| least <= is),
        "maxLength" => measured(it, length(value), |most, is| most >= is),
        "minItems" => measured(it, items(value), |least, is| least <= is),
        "maxItems" => measured(it, items(value), |most, is| most >= is),
        _ => true,
    })
}

fn object_fits(
    schema: &Map<String, Value>,
    keyword: &str,
    wanted: &Value,
    object: &Map<String, Value>,
) -> bool {
    let known = schema.get("properties").and_then(Value::as_object);
    match keyword {
        "properties" => known.into_iter().flatten().all(|(name, property)| {
            object
                .get(name)
                .is_none_or(|inner| surely_fits(property, inner))
        }),
        "required" => wanted
            .as_array()
            .into_iter()
            .flatten()
            .all(|name| name.as_str().is_some_and(|name| object.contains_key(name))),
        _ => object.iter().all(|(name, inner)| {
            known.is_some_and(|it| it.contains_key(name))
                || match wanted {
                    Value::Bool(allowed) => *allowed,
                    schema => surely_fits(schema, inner),
                }
        }),
    }
}

fn has_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("number", Value::Number(_))
        | ("string", Value::String(_)) => true,
        // `1.0` is an integer too, as the validator knows.
        ("integer", Value::Number(number)) => whole(number).is_some(),
        _ => false,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// Only whole numbers are compared here: comparing decimals exactly is the validator's art.
fn in_range(bound: &Value, value: &Value, holds: impl Fn(i128, i128) -> bool) -> bool {
    let Value::Number(number) = value else {
        return true;
    };
    match (bound.as_number().and_then(whole), whole(number)) {
        (Some(bound), Some(number)) => holds(bound, number),
        _ => false,
    }
}

fn measured(bound: &Value, size: Option<usize>, holds: impl Fn(u64, u64) -> bool) -> bool {
    match (bound.as_u64(), size) {
        (_, None) => true,
        (Some(bound), Some(size)) => holds(bound, size as u64),
        (None, Some(_)) => false,
    }
}

fn length(value: &Value) -> Option<usize> {
    value.as_str().map(|it| it.chars().count())
}

fn items(value: &Value) -> Option<usize> {
    value.as_array().map(Vec::len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..4i64).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-3..4i32).prop_map(|it| json!(f64::from(it) / 2.0)),
            "[aé😀]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    fn schema() -> impl Strategy<Value = Value> {
        let of_type = prop::sample::select(vec![
            "null", "boolean", "object", "array", "number", "string", "integer", "strng",
        ]);
        let number = prop_oneof![(-3..4i64).prop_map(Value::from), Just(json!(0.5))];
        let keyword = prop_oneof![
            of_type.prop_map(|it| ("type", json!(it))),
            prop::collection::vec(value(), 0..3).prop_map(|it| ("enum", json!(it))),
            number.clone().prop_map(|it| ("minimum", it)),
            number.clone().prop_map(|it| ("maximum", it)),
            (
                prop::sample::select(vec!["minLength", "maxLength", "minItems", "maxItems"]),
                number
            ),
            prop::collection::vec("[ab]", 0..3).prop_map(|it| ("required", json!(it))),
            any::<bool>().prop_map(|it| ("additionalProperties", json!(it))),
            value().prop_map(|it| ("default", it)),
            Just(("pattern", json!("a"))),
        ];
        let flat = prop::collection::vec(keyword, 0..4)
            .prop_map(|it| Value::Object(it.into_iter().map(|(k, v)| (k.into(), v)).collect()));
        flat.prop_recursive(3, 12, 3, |inner| {
            (
                inner.clone(),
                prop::sample::select(vec!["items", "additionalProperties", "properties"]),
                prop::collection::btree_map("[ab]", inner, 1..3),
            )
                .prop_map(|(mut outer, keyword, inner)| {
                    outer[keyword] = match keyword {
                        "properties" => json!(inner),
                        _ => inner.into_values().next().unwrap_or_default(),
                    };
                    outer
                })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn plain_schemas_are_usable_and_what_fits_is_valid(
            schema in schema(),
            values in prop::collection::vec(value(), 30),
        ) {
            if !is_plain(&schema) {
                return Ok(());
            }
            let validator = super::super::compile(&schema);
            prop_assert!(validator.is_ok(), "{schema}");
            for value in values.iter().filter(|it| surely_fits(&schema, it)) {
                prop_assert!(validator.as_ref().is_ok_and(|it| it.is_valid(value)), "{schema} {value}");
            }
        }
    }

    #[test]
    fn tools_as_people_write_them_are_plain() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "What", "minLength": 1},
                "count": {"type": "integer", "default": 5, "minimum": 1, "maximum": 10},
                "sort": {"type": "string", "enum": ["new", "old"]}
            }
        });
        assert!(is_plain(&schema));
        assert!(surely_fits(
            &schema,
            &json!({"query": "x", "count": 10, "sort": "old"})
        ));
        for wrong in [
            json!({}),
            json!({"query": ""}),
            json!({"query": "x", "count": 11}),
            json!({"query": "x", "sort": "best"}),
            json!({"query": "x", "page": 1}),
        ] {
            assert!(!surely_fits(&schema, &wrong), "{wrong}");
        }
    }
}
