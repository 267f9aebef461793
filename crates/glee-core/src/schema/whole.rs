//! Whole numbers: `5.0` is an integer as JSON Schema has it, and none for most programs. Where an integer is asked
//! for, it is written as one before anybody looks at it.

use serde_json::{Map, Value};

/// Subschemas that are looked at for one value. A schema that takes more is its author's riddle: what is left stays as
/// it was written.
const MOST: usize = 100_000;
const DEEPEST: usize = 200;
/// Up to here every whole number is one that a double can tell from its neighbours.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn settle(root: &Value, value: &mut Map<String, Value>) {
    if value.values().any(has_float) {
        let mut left = MOST;
        object(root, root, value, DEEPEST, &mut left);
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for schema in root[keyword].as_array().into_iter().flatten() {
                object(root, schema, value, DEEPEST, &mut left);
            }
        }
    }
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

fn any(root: &Value, schema: &Value, value: &mut Value, depth: usize, left: &mut usize) {
    let (Some(fewer), Some(depth)) = (left.checked_sub(1), depth.checked_sub(1)) else {
        return;
    };
    *left = fewer;
    let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    if let Some(target) = target.and_then(|it| root.pointer(it)) {
        any(root, target, value, depth, left);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for schema in schema[keyword].as_array().into_iter().flatten() {
            any(root, schema, value, depth, left);
        }
    }
    match value {
        Value::Number(number) if is_integer(&schema["type"]) => {
            let float = number.is_f64().then(|| number.as_f64()).flatten();
            if let Some(whole) = float.filter(|it| it.fract() == 0.0 && it.abs() <= EXACT) {
                *value = (whole as i64).into();
            }
        }
        Value::Array(items) => {
            let first = schema["prefixItems"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            for (at, item) in items.iter_mut().enumerate() {
                any(
                    root,
                    first.get(at).unwrap_or(&schema["items"]),
                    item,
                    depth,
                    left,
                );
            }
        }
        Value::Object(map) => object(root, schema, map, depth, left),
        _ => {}
    }
}

fn object(
    root: &Value,
    schema: &Value,
    value: &mut Map<String, Value>,
    depth: usize,
    left: &mut usize,
) {
    for (name, inner) in value {
        let known = schema["properties"].get(name);
        let schema = known.unwrap_or(&schema["additionalProperties"]);
        any(root, schema, inner, depth, left);
    }
}

fn is_integer(kind: &Value) -> bool {
    match kind {
        Value::String(kind) => kind == "integer",
        Value::Array(kinds) => kinds.iter().any(|it| it == "integer"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_where_they_are_asked_for() {
        let schema = json!({
            "properties": {
                "n": {"type": "integer"}, "f": {"type": "number"}, "any": {},
                "null": {"type": ["integer", "null"]}, "ref": {"$ref": "#/$defs/n"},
                "list": {"items": {"type": "integer"}}, "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "deep": {"properties": {"n": {"type": "integer"}}}
            },
            "additionalProperties": {"type": "integer"},
            "$defs": {"n": {"type": "integer"}}
        });
        let mut given = json!({
            "n": 5.0, "f": 5.0, "any": 5.0, "null": -2.0, "ref": 1e3, "list": [1.0, 1.5], "either": 0.0,
            "deep": {"n": 7.0}, "more": 9.0
        });
        settle(&schema, given.as_object_mut().unwrap());
        let expected = r#"{"n":5,"f":5.0,"any":5.0,"null":-2,"ref":1000,"list":[1,1.5],"either":0,"deep":{"n":7},"more":9}"#;
        assert_eq!(given.to_string(), expected);
        let mut huge = json!({"n": 1e300, "more": 1e17});
        settle(&schema, huge.as_object_mut().unwrap());
        assert_eq!(huge, json!({"n": 1e300, "more": 1e17}));
    }

    #[test]
    fn a_schema_without_end_is_left() {
        let schema = json!({
            "properties": {"n": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}, {"type": "integer"}]}}
        });
        let mut given = json!({"n": 5.0});
        settle(&schema, given.as_object_mut().unwrap());
    }
}
