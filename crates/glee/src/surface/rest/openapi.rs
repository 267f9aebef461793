//! The OpenAPI document, made of the operations themselves, and a page for people made of it.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operations;
use crate::app::App;

/// `/openapi.json`, and `/docs` for people.
pub(super) fn router(app: &Arc<App>) -> Router {
    let document = document(app);
    let page = page(&document);
    let text = document.to_string();
    let json = [(header::CONTENT_TYPE, "application/json")];
    Router::new()
        .route(
            "/openapi.json",
            get(|| async move { (json, text).into_response() }),
        )
        .route("/docs", get(|| async move { Html(page) }))
}

/// What the API can do, in OpenAPI 3.1.
pub fn document(app: &Arc<App>) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations(app) {
        let path = paths.entry(operation.path()).or_insert_with(|| json!({}));
        path[operation.method()] = operation.describe(&mut generator);
    }
    paths.sort_keys();
    let mut schemas = answers();
    schemas.extend(generator.take_definitions(true));
    schemas.sort_keys();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "glee",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tools for AI agents: bundles of them, calls, and what people decide about calls.",
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer",
                "description": "`glee token create NAME --scope SCOPE` makes one; `x-scope` says which scope an operation needs",
            }},
        },
    })
}

/// What operations answer.
fn answers() -> Map<String, Value> {
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    let id = || json!({"type": "string", "format": "uuid"});
    let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
    let list = |name: &str, of: &str| {
        object(
            &[name],
            json!({
                name: {"type": "array", "items": {"$ref": format!("#/components/schemas/{of}")}},
                "nextPageToken": {"type": "string", "description": "Gives the next page; absent on the last"},
            }),
        )
    };
    let all = json!({
        "Bundle": object(
            &["bundleID", "slug", "displayName", "description", "isEnabled", "isBuiltIn", "createdAt", "modifiedAt"],
            json!({
                "bundleID": id(), "slug": text(), "displayName": text(), "description": text(),
                "isEnabled": {"type": "boolean"}, "isBuiltIn": {"type": "boolean"},
                "createdAt": time(), "modifiedAt": time(), "softDeletedAt": time(),
            }),
        ),
        "Bundles": list("bundles", "Bundle"),
        "Tool": object(
            &["schemaVersion", "toolID", "bundleID", "slug", "version", "name", "type", "isEnabled", "isBuiltIn", "argSchema", "impl", "createdAt", "modifiedAt"],
            json!({
                "schemaVersion": text(), "toolID": id(), "bundleID": id(), "slug": text(), "version": text(),
                "name": {"type": "string", "description": "What it is called in all bundles together"},
                "displayName": text(), "description": text(), "tags": {"type": "array", "items": text()},
                "type": {"type": "string", "enum": ["go", "http", "command", "python"]},
                "isEnabled": {"type": "boolean"}, "isBuiltIn": {"type": "boolean"},
                "argSchema": {"type": "object"}, "outputSchema": {}, "impl": {"type": "object"},
                "createdAt": time(), "modifiedAt": time(),
                "usage": {"type": "object", "description": "Of calls that ran to their end, counted from the audit", "properties": {
                    "callCount": {"type": "integer"}, "failureCount": {"type": "integer"},
                    "lastCalledAt": time(), "averageMs": {"type": "number"},
                }},
                "disabledReason": {"type": "string", "description": "Why it cannot be called now"},
            }),
        ),
        "Tools": list("tools", "Tool"),
        "Answer": {"description": "In the words of the provider", "type": ["object", "array"]},
        "Part": object(&["ok", "bytes"], json!({
            "ok": {"const": true}, "bytes": {"type": "integer", "description": "Of the whole"},
            "text": text(), "lines": {"type": "array", "items": object(&["offset", "text"], json!({"offset": {"type": "integer"}, "text": text()}))},
            "nextOffset": {"type": "integer", "description": "Gives the next part; absent on the last"},
        })),
        "Done": object(&["ok"], json!({"ok": {"const": true}})),
        "Value": object(&["ok", "value"], json!({
            "ok": {"const": true}, "value": {}, "warnings": {"type": "array", "items": text()},
            "meta": {"type": "object"},
        })),
        "Failure": object(&["ok", "error"], json!({
            "ok": {"const": false},
            "error": object(&["code", "message", "details", "retryable"], json!({
                "code": text(), "message": text(), "details": {"type": "object"}, "hint": text(),
                "retryable": {"type": "boolean"},
            })),
            "meta": {"type": "object"},
        })),
    });
    match all {
        Value::Object(all) => all,
        _ => unreachable!("it is written as one"),
    }
}

/// All operations on one page, without anything that a browser would have to run.
fn page(document: &Value) -> String {
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>glee API</title>\n<h1>glee API</h1>\n\
         <p>The same for programs: <a href=\"/openapi.json\">openapi.json</a>. Send <code>Authorization: Bearer TOKEN</code>.</p>\n",
    );
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, about) in operations.as_object().into_iter().flatten() {
            let _ = writeln!(
                out,
                "<h2 id=\"{}\"><code>{} {}</code></h2>\n<p>{}</p>",
                shown(&about["operationId"]),
                method.to_uppercase(),
                escaped(path),
                shown(&about["summary"]),
            );
            if let Some(scope) = about["x-scope"].as_str() {
                let _ = writeln!(out, "<p>Scope: <code>{scope}</code></p>");
            }
            rows(&mut out, about["parameters"].as_array(), |it| {
                (shown(&it["name"]), shown(&it["description"]))
            });
            if let Some(body) = about["requestBody"]["content"]["application/json"].get("schema") {
                let _ = writeln!(
                    out,
                    "<p>Body:</p>\n<pre>{}</pre>",
                    pretty(resolved(document, body))
                );
            }
            out.push_str("<ul>\n");
            for (status, response) in about["responses"].as_object().into_iter().flatten() {
                let _ = writeln!(
                    out,
                    "<li><code>{status}</code> {}</li>",
                    shown(&response["description"])
                );
            }
            out.push_str("</ul>\n");
        }
    }
    out + "</html>\n"
}

fn rows(out: &mut String, items: Option<&Vec<Value>>, row: impl Fn(&Value) -> (String, String)) {
    let Some(items) = items.filter(|it| !it.is_empty()) else {
        return;
    };
    out.push_str("<dl>\n");
    for (name, about) in items.iter().map(row) {
        let _ = writeln!(out, "<dt><code>{name}</code></dt><dd>{about}</dd>");
    }
    out.push_str("</dl>\n");
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    target.and_then(|it| document.pointer(it)).unwrap_or(schema)
}

fn pretty(value: &Value) -> String {
    escaped(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn shown(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
