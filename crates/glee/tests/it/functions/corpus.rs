//! Schemas as people and generators write them: every keyword, in every place.

use serde_json::{Value, json};

/// Schemas of single values, one for each thing that JSON Schema can say.
fn values() -> Vec<Value> {
    let long: String = "word ".repeat(400);
    let many: Vec<Value> = (0..700).map(|it| json!(format!("v{it}"))).collect();
    let mut deep = json!({"type": "string"});
    for _ in 0..14 {
        deep = json!({"type": "object", "properties": {"in": deep}});
    }
    vec![
        json!(true),
        json!({}),
        json!({"type": "string"}),
        json!({"type": "string", "description": long}),
        json!({"type": "string", "description": "hid\u{200b}den", "title": "T", "examples": ["a"]}),
        json!({"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a+$"}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "uri-template"}),
        json!({"type": "string", "enum": ["a", "b"]}),
        json!({"type": "string", "enum": many}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
        json!({"const": "only"}),
        json!({"const": 5}),
        json!({"const": null}),
        json!({"const": {"a": 1}}),
        json!({"enum": [1, 2, 3]}),
        json!({"enum": ["a", 1, true, null]}),
        json!({"enum": [[1], [2]]}),
        json!({"type": "string", "default": "x", "deprecated": true, "readOnly": true}),
        json!({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}),
        json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 5}),
        json!({"type": "integer", "enum": [1, 2]}),
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25}),
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": ["string", "integer"]}),
        json!({"type": ["string", "integer", "null"], "description": "several"}),
        json!({"type": ["array", "null"], "items": {"type": "string"}}),
        json!({"type": "array"}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3, "uniqueItems": true}),
        json!({"type": "array", "items": true}),
        json!({"type": "array", "items": false}),
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
        json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]}),
        json!({"type": "array", "contains": {"type": "integer"}, "minContains": 1, "maxContains": 2}),
        json!({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}}),
        json!({"type": "array", "unevaluatedItems": false, "items": {"type": "string"}}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "patternProperties": {"^x-": {"type": "string"}}}),
        json!({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1, "maxProperties": 5}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "elsewhere"]}),
        json!({"type": "object", "properties": {"a": false, "b": true}}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"type": {"type": "string"}, "properties": {"type": "object", "properties": {"items": {"type": "string"}}}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "dependentRequired": {"a": ["b"]}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "dependentSchemas": {"a": {"required": ["b"]}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "unevaluatedProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["b"]}}),
        json!({"type": "string", "not": {"const": "x"}}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "maybe"}),
        json!({"oneOf": [{"const": "a"}, {"const": "b"}]}),
        json!({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "string"}}, "required": ["k", "x"]},
                         {"type": "object", "properties": {"k": {"const": "b"}, "y": {"type": "integer"}}, "required": ["k"]}]}),
        json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        json!({"allOf": [{"type": "string"}, {"minLength": 2}]}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                         {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
        json!({"allOf": [{"type": "string", "maxLength": 3}, {"maxLength": 5}]}),
        json!({"anyOf": [{"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "integer"}]}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"$ref": "#/$defs/text"}),
        json!({"$ref": "#/$defs/text", "description": "beside"}),
        json!({"$ref": "#/$defs/tree"}),
        json!({"type": "array", "items": {"$ref": "#/$defs/tree"}}),
        json!({"type": "object", "properties": {"self": {"$ref": "#"}}}),
        json!({"$comment": "nothing", "type": "string", "x-internal": true}),
        deep,
    ]
}

fn with_definitions(mut schema: Value) -> Value {
    schema["$defs"] = json!({
        "text": {"type": "string", "minLength": 1},
        "tree": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        }},
    });
    schema
}

/// Each value where it is required, where it is optional, in a list, and in an object; then what can
/// stand at the root itself.
pub(super) fn schemas() -> Vec<Value> {
    let mut all = Vec::new();
    for value in values() {
        let around = [
            json!({"type": "object", "properties": {"v": value}, "required": ["v"], "additionalProperties": false}),
            json!({"type": "object", "properties": {"v": value, "w": {"type": "string"}}}),
            json!({"type": "object", "properties": {"list": {"type": "array", "items": value}}}),
            json!({"type": "object", "properties": {"o": {"type": "object", "properties": {"v": value}, "required": ["v"]}}}),
        ];
        all.extend(around.map(with_definitions));
    }
    let a = json!({"a": {"type": "string"}});
    all.extend([
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": false}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "patternProperties": {"^x": {"type": "string"}}}),
        json!({"type": "object", "properties": a, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"type": "object", "anyOf": [{"properties": a, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}}]}),
        json!({"type": "object", "allOf": [{"properties": a}, {"properties": {"b": {"$ref": "#/$defs/n"}}}], "$defs": {"n": {"type": "integer"}}}),
        json!({"type": "object", "properties": a, "not": {"required": ["b"]}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/%24defs/%C3%A4~1"}}, "$defs": {"ä/": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#here"}}}, "$defs": {"x": {"$anchor": "here", "type": "integer"}}}),
        json!({"type": "object", "properties": {"with space": {"type": "string"}, "a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"with space": {"type": "string"}}, "required": ["with space"]}),
        json!({"type": "object", "properties": {"größe": {"type": "integer"}, "$dollar": {"type": "string"}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": a}),
        json!({"type": "object", "title": "Root", "description": "of all", "properties": a, "minProperties": 1}),
    ]);
    all
}
