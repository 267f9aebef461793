//! Tools as an OpenAPI 3.1 document: each is one operation, `POST /run/{name}`.

use glee_core::model::{Format, ToolSpec};
use glee_core::name::visible;
use glee_core::url_template::encode;
use serde_json::{Map, Value, json};

/// Each tool with the name that it has among all there are.
pub fn document(tools: &[(&ToolSpec, String)]) -> Value {
    let paths: Map<String, Value> = tools
        .iter()
        .map(|(spec, id)| {
            let path = format!("/run/{}", encode(&spec.name));
            (path, json!({"post": operation(spec, id)}))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "Tools", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Failure": {
                "description": "The call was refused, or the tool failed; `error.code` says how",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["ok", "error"],
                    "properties": {
                        "ok": {"const": false},
                        "error": {
                            "type": "object",
                            "required": ["code", "message", "retryable"],
                            "properties": {
                                "code": {"type": "string"},
                                "message": {"type": "string"},
                                "details": {"type": "object"},
                                "hint": {"type": "string"},
                                "retryable": {"type": "boolean"},
                            },
                        },
                        "meta": {"type": "object"},
                    },
                }}},
            }},
        },
    })
}

fn operation(spec: &ToolSpec, id: &str) -> Value {
    let value = match (&spec.outputs.schema, spec.outputs.format) {
        (Some(schema), _) => own(schema.source(), id, "output"),
        (None, Format::Text) => json!({"type": "string"}),
        (None, Format::Json | Format::Content) => json!({}),
    };
    let title = spec.title.as_deref().unwrap_or(&spec.name);
    json!({
        "operationId": id,
        "summary": visible(title),
        "description": visible(&spec.description),
        "tags": spec.tags,
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": own(spec.inputs.source(), id, "input")}},
        },
        "responses": {
            "200": {
                "description": "The tool's value",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["ok", "value"],
                    "properties": {
                        "ok": {"const": true},
                        "value": value,
                        "warnings": {"type": "array", "items": {"type": "string"}},
                        "meta": {"type": "object"},
                    },
                }}},
            },
            "default": {"$ref": "#/components/responses/Failure"},
        },
    })
}

/// A schema that refers to itself says where it is, so that its references do not lead into the document.
fn own(schema: &Value, id: &str, what: &str) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(map) = &mut schema {
        map.shift_remove("$schema");
        if refers(&Value::Object(map.clone())) {
            map.insert("$id".into(), format!("urn:glee:{id}:{what}").into());
        }
    }
    schema
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}
