//! How a tool is shown to MCP clients.

use std::sync::Arc;

use glee_core::model::{Exec, Format, Method, ToolSpec};
use glee_core::name::visible;
use glee_core::permission::Network;
use glee_core::schema::{Schema, show};
use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::app::App;

/// Longest description, in bytes; clients cut later, and in the middle of a word.
const LONGEST_DESCRIPTION: usize = 2048;

/// Says which version of a tool's manifest and files a definition speaks of.
pub(super) const DIGEST: &str = "dev.glee/digest";

/// These tools, as clients are shown them.
pub(in crate::surface) fn all(app: &App, tools: &[(&ToolSpec, String)]) -> Vec<Tool> {
    let largest = app.mcp().result_bytes;
    tools
        .iter()
        .map(|(spec, shown_as)| of(spec, shown_as.clone(), app.digest(spec), largest))
        .collect()
}

pub(super) fn of(
    spec: &ToolSpec,
    shown_as: String,
    digest: Option<String>,
    largest_result: usize,
) -> Tool {
    let mut tool = Tool::new(shown_as, description(&spec.description), inputs(spec));
    tool.title = spec.title.as_deref().map(visible);
    tool.output_schema = output_schema(spec).map(|it| Arc::new(outputs(it)));
    let mut meta = Map::new();
    if let Some(digest) = digest {
        meta.insert(DIGEST.into(), digest.into());
    }
    if !spec.tags.is_empty() {
        let hint = visible(&spec.tags.join(" "));
        meta.insert("anthropic/searchHint".into(), hint.into());
    }
    meta.insert("anthropic/maxResultSizeChars".into(), largest_result.into());
    tool.with_annotations(annotations(spec))
        .with_meta(MetaObject(meta))
}

/// The author's schema as it is, but that what is asked for when it is absent is not required.
fn inputs(spec: &ToolSpec) -> Arc<Map<String, Value>> {
    let mut schema = shown(spec.inputs.source());
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        let asked = |name: &Value| {
            spec.elicit
                .iter()
                .flat_map(|round| &round.0)
                .any(|(_, request)| request.fills().iter().any(|it| name == it))
        };
        required.retain(|name| !asked(name));
    }
    Arc::new(schema)
}

fn shown(schema: &Value) -> Map<String, Value> {
    let mut schema = schema.clone();
    show(&mut schema);
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What the structured content of a result is promised to be. Of typed content nothing is promised: its
/// schema speaks of the envelope, which no client sees.
pub(super) fn output_schema(spec: &ToolSpec) -> Option<&Value> {
    match spec.outputs.format {
        Format::Json | Format::Text => spec.outputs.schema.as_ref().map(Schema::source),
        Format::Content => None,
    }
}

/// The root of what clients get is always an object; any other value stands below `result`.
fn outputs(schema: &Value) -> Map<String, Value> {
    let mut schema = schema.clone();
    show(&mut schema);
    match schema {
        Value::Object(map) if map.get("type") == Some(&"object".into()) => map,
        mut other => {
            move_references(&mut other);
            let mut wrapped = Map::new();
            // It stands at a root only.
            if let Some(dialect) = other
                .as_object_mut()
                .and_then(|it| it.shift_remove("$schema"))
            {
                wrapped.insert("$schema".into(), dialect);
            }
            wrapped.insert("type".into(), "object".into());
            wrapped.insert("properties".into(), json!({"result": other}));
            wrapped.insert("required".into(), json!(["result"]));
            wrapped
        }
    }
}

/// References into a schema that now stands below `result` must lead there; those into one with a name of its own still
/// do.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(map) if map.get("$id").is_some_and(Value::is_string) => {}
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(to) if key == "$ref" && (to == "#" || to.starts_with("#/")) => {
                        *to = format!("#/properties/result{}", &to[1..]);
                    }
                    other => move_references(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}

/// Whether every value of the schema is an object, as far as its root says.
pub(super) fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

/// Whether a tool only reads, and whether it reaches out, is known from its permissions. What kind of
/// change it makes is not, and there its author is believed; clients take these for hints.
fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    let only_asks = match &spec.exec {
        Exec::Http(http) => matches!(http.method, Method::Get | Method::Head),
        Exec::Command(_) | Exec::Python(_) | Exec::Native(_) => {
            spec.permissions.network == Network::None
        }
    };
    let said = &spec.annotations;
    let read_only = only_asks && spec.permissions.write.is_empty() && said.read_only != Some(false);
    let network = matches!(spec.exec, Exec::Http(_)) || spec.permissions.network != Network::None;
    ToolAnnotations::from_raw(
        spec.title.as_deref().map(visible),
        Some(read_only),
        Some(!read_only && said.destructive.unwrap_or(true)),
        Some(read_only || said.idempotent.unwrap_or(false)),
        Some(network),
    )
}

fn description(text: &str) -> String {
    let mut text = visible(text);
    if text.len() > LONGEST_DESCRIPTION {
        let end = text.floor_char_boundary(LONGEST_DESCRIPTION - '…'.len_utf8());
        text.truncate(end);
        text.push('…');
    }
    text
}
