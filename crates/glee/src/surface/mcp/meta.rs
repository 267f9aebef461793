//! The tools that are about tools. With them a model finds and calls any tool without having read the
//! definitions of all, and tools that came into being after it looked.

use std::sync::LazyLock;

use glee_core::catalog::offer;
use glee_core::name::visible;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::schema::{Schema, sentence};
use rmcp::model::{CallToolResult, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::result::{self, Shelf};
use super::shown::{Entry, Shown};
use crate::app::{App, Listed};
use crate::dialect::signature;
use crate::store::results;

pub(super) const CALL: &str = "glee_tool";
const LIST: &str = "glee_tools_list";
const SEARCH: &str = "glee_tools_search";
const DESCRIBE: &str = "glee_tool_describe";
pub(super) const CREATE: &str = "glee_tool_create";
const READ: &str = "glee_result_read";

/// The form of an id.
const UUID: &str = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";

/// Tokens a list or a search may take, unless the caller says otherwise.
const BUDGET: u64 = 2000;

/// What an answer of a list holds besides it, in bytes.
const AROUND: usize = 400;

struct MetaTool {
    name: &'static str,
    description: &'static str,
    inputs: Schema,
    annotations: ToolAnnotations,
}

static ALL: LazyLock<Vec<MetaTool>> = LazyLock::new(|| {
    let tool = |name, description, inputs: Value, annotations| MetaTool {
        name,
        description,
        inputs: match Schema::new(inputs) {
            Ok(schema) => schema,
            Err(err) => unreachable!("{name} has a schema of ours: {err:?}"),
        },
        annotations,
    };
    // It can be any tool, so it is as dangerous as any of them.
    let any = ToolAnnotations::from_raw(None, Some(false), Some(true), Some(false), Some(true));
    let reads = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false));
    vec![
        tool(
            CALL,
            "Run a tool of this project by name, also one that is not listed here. Find tools with \
             glee_tools_search or glee_tools_list, and their parameters with glee_tool_describe.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["name"],
                "properties": {
                    "name": {"type": "string", "description": "The tool's name"},
                    "params": {"type": "object", "description": "Its arguments", "default": {}},
                    "approval_id": {"type": "string", "pattern": UUID,
                        "description": "Runs what a person approved under this id, once; params may be left out"}
                }
            }),
            any,
        ),
        tool(
            LIST,
            "List the tools of this project, one line each: name(arg: type, opt?: type) — summary.",
            json!({
                "type": "object", "additionalProperties": false,
                "properties": {
                    "detail": {"type": "string", "enum": ["names", "signature", "full"], "default": "signature",
                        "description": "How much to tell of each tool"},
                    "tags": {"type": "array", "items": {"type": "string"},
                        "description": "Only tools that have all of these tags"},
                    "max_tokens": {"type": "integer", "minimum": 50, "maximum": 100000, "default": BUDGET,
                        "description": "About how long the answer may be"},
                    "cursor": {"type": "string", "description": "`next` of the last answer, to go on"}
                }
            }),
            reads.clone(),
        ),
        tool(
            SEARCH,
            "Find tools by what they do. The best matches come with their full definition, as far as \
             max_tokens allows, the others in one line.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["query"],
                "properties": {
                    "query": {"type": "string", "minLength": 1, "maxLength": 1000,
                        "description": "A few words, such as `send message to channel`"},
                    "max_tokens": {"type": "integer", "minimum": 50, "maximum": 100000, "default": BUDGET,
                        "description": "About how long the answer may be"},
                    "k": {"type": "integer", "minimum": 1, "maximum": 100, "default": 5,
                        "description": "Most tools to return"}
                }
            }),
            reads.clone(),
        ),
        tool(
            DESCRIBE,
            "Everything about one tool: what it takes and gives, and what it may touch.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["name"],
                "properties": {"name": {"type": "string", "description": "The tool's name"}}
            }),
            reads.clone(),
        ),
        tool(
            CREATE,
            "Make a new tool, which a person must approve before anybody can call it. The definition has \
             the form of tool.yml without its name; it may ask for no more than this project allows.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["name", "definition"],
                "properties": {
                    "name": {"type": "string", "description": "A name no other tool has"},
                    "definition": {"type": "object",
                        "description": "description, kind, version, inputs, outputs, exec, permissions, examples"},
                    "files": {"type": "object", "additionalProperties": {"type": "string"},
                        "description": "Scripts it brings, by name inside .glee/tools/NAME/; text by name"}
                }
            }),
            ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(false)),
        ),
        tool(
            READ,
            "Read a part of a result that was too large to be given whole.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["handle"],
                "properties": {
                    "handle": {"type": "string", "description": "The handle that came with the result"},
                    "offset": {"type": "integer", "minimum": 0, "default": 0,
                        "description": "Bytes to skip"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 16000,
                        "description": "Most bytes to return"},
                    "grep": {"type": "string", "minLength": 1, "maxLength": 1000,
                        "description": "Only lines that hold this text, in upper or lower case"}
                }
            }),
            reads,
        ),
    ]
});

pub(super) fn definitions() -> Vec<Tool> {
    ALL.iter()
        .map(|it| {
            let schema = it.inputs.source().as_object().cloned().unwrap_or_default();
            let mut meta = Map::new();
            meta.insert("anthropic/alwaysLoad".into(), true.into());
            Tool::new(it.name, it.description, schema)
                .with_annotations(it.annotations.clone())
                .with_meta(MetaObject(meta))
        })
        .collect()
}

pub(super) fn is_one(name: &str) -> bool {
    ALL.iter().any(|it| it.name == name)
}

/// The arguments of a meta tool, checked as any tool's are.
pub(super) fn check(
    name: &str,
    mut args: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let Some(tool) = ALL.iter().find(|it| it.name == name) else {
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no tool `{name}`"),
        ));
    };
    // Ours hold no defaults that could fill without end.
    let _ = tool.inputs.fill(&mut args);
    let violations = tool.inputs.violations(&Value::Object(args.clone()));
    if violations.is_empty() {
        return Ok(args);
    }
    let message = format!(
        "the arguments of `{name}` are not valid: {}",
        sentence(&violations)
    );
    Err(Failure::new(FailureKind::InvalidInput, message))
}

/// Answers a call of any meta tool but [`CALL`] and [`CREATE`], whose arguments were checked.
pub(super) fn answer(
    name: &str,
    args: &Map<String, Value>,
    app: &App,
    shown: &Shown,
    shelf: &Shelf<'_>,
) -> CallToolResult {
    let answer = match name {
        LIST => Ok(list(args, shown, budget(args, shelf))),
        SEARCH => Ok(search(args, app, shown, budget(args, shelf))),
        DESCRIBE => describe(args, shown),
        _ => read(args, shelf),
    };
    match answer {
        Ok(value) => result::whole_or_large(value, false, shelf),
        Err(failure) => result::error(&failure, shelf),
    }
}

fn list(args: &Map<String, Value>, shown: &Shown, budget: usize) -> Map<String, Value> {
    let detail = args["detail"].as_str().unwrap_or_default();
    let tags: Vec<&str> = args
        .get("tags")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let after = args.get("cursor").and_then(Value::as_str);
    let wanted: Vec<&Entry> = shown
        .entries
        .iter()
        .filter(|it| {
            tags.iter()
                .all(|tag| it.spec.tags.iter().any(|has| has == tag))
        })
        .filter(|it| after.is_none_or(|after| it.spec.name.as_str() > after))
        .collect();
    let mut left = budget;
    let mut lines = Vec::new();
    for entry in &wanted {
        let line = match detail {
            "names" => entry.tool.name.to_string().into(),
            "full" => full(entry),
            _ => signature::line(&entry.spec, &entry.tool.name).into(),
        };
        // The first is always given, or nobody would get on.
        let Some(rest) = left
            .checked_sub(cost(&line))
            .or(lines.is_empty().then_some(0))
        else {
            break;
        };
        left = rest;
        lines.push(line);
    }
    let mut out = Map::new();
    if lines.len() < wanted.len() {
        out.insert(
            "next".into(),
            wanted[lines.len() - 1].spec.name.clone().into(),
        );
        out.insert("left_off".into(), (wanted.len() - lines.len()).into());
    }
    out.insert("total".into(), shown.entries.len().into());
    out.insert("tools".into(), lines.into());
    out
}

fn search(
    args: &Map<String, Value>,
    app: &App,
    shown: &Shown,
    budget: usize,
) -> Map<String, Value> {
    let query = args["query"].as_str().unwrap_or_default();
    let most = args["k"].as_f64().unwrap_or(5.0) as usize;
    let mut left = budget;
    let mut tools = Vec::new();
    for hit in app.search(query, None, most, Listed::Usable) {
        let Some(entry) = shown.find(&hit.member.name) else {
            continue;
        };
        let whole = full(entry);
        let line = Value::from(signature::line(&entry.spec, &entry.tool.name));
        let told = if cost(&whole) <= left { whole } else { line };
        match left
            .checked_sub(cost(&told))
            .or(tools.is_empty().then_some(0))
        {
            Some(rest) => left = rest,
            None => break,
        }
        tools.push(told);
    }
    let mut out = Map::new();
    if tools.is_empty() {
        out.insert(
            "note".into(),
            "no tool matches; glee_tools_list shows all".into(),
        );
    }
    out.insert("tools".into(), tools.into());
    out
}

/// In tokens. An answer that is too large to be given whole would be of no use: its next page is better.
fn budget(args: &Map<String, Value>, shelf: &Shelf<'_>) -> usize {
    let wanted = args["max_tokens"].as_f64().map_or(BUDGET, |it| it as u64) as usize;
    // A token is four bytes, and a comma may follow on each; what stands around the list takes some more.
    wanted.min(shelf.largest.saturating_sub(AROUND) / 5)
}

fn cost(value: &Value) -> usize {
    signature::tokens(&value.to_string())
}

fn full(entry: &Entry) -> Value {
    let mut out = json!({
        "name": entry.tool.name,
        "description": entry.tool.description,
        "inputSchema": *entry.tool.input_schema,
    });
    if let Some(schema) = &entry.tool.output_schema {
        out["outputSchema"] = Value::Object((**schema).clone());
    }
    out
}

fn describe(args: &Map<String, Value>, shown: &Shown) -> Result<Map<String, Value>, Failure> {
    let name = args["name"].as_str().unwrap_or_default();
    let entry = match shown.find(name) {
        Some(entry) => entry,
        None => return Err(missing(name, shown)),
    };
    let spec = &entry.spec;
    let mut out = full(entry);
    out["call"] = format!("glee_tool(name: \"{}\", params: …)", entry.tool.name).into();
    out["version"] = spec.version.clone().into();
    out["tags"] = spec.tags.iter().map(|it| visible(it)).collect();
    out["kind"] = spec.exec.kind().into();
    out["permissions"] = json!({
        "network": spec.permissions.network.to_string(),
        "read": spec.permissions.read,
        "write": spec.permissions.write,
        "secrets": spec.permissions.secrets.keys().collect::<Vec<_>>(),
    });
    out["examples"] = spec
        .examples
        .iter()
        .take(3)
        .map(|it| json!({"description": it.description, "params": it.params}))
        .collect();
    match out {
        Value::Object(map) => Ok(map),
        _ => unreachable!("it was made as an object"),
    }
}

/// Why a tool cannot be described: the catalog knows whether it is broken, waits for a person or is not
/// there at all.
fn missing(name: &str, shown: &Shown) -> Failure {
    match shown.snapshot.find(name) {
        Err(failure) => failure,
        Ok(spec) => match offer(&spec.name, &spec.origin) {
            Err(failure) => failure,
            Ok(()) => Failure::new(FailureKind::NotFound, format!("there is no tool `{name}`")),
        },
    }
}

fn read(args: &Map<String, Value>, shelf: &Shelf<'_>) -> Result<Map<String, Value>, Failure> {
    let handle = args["handle"].as_str().unwrap_or_default();
    let handle = handle.strip_prefix(result::SCHEME).unwrap_or(handle);
    let text = shelf.results.get(shelf.owner, handle).ok_or_else(|| {
        Failure::new(
            FailureKind::NotFound,
            "there is no such result, or no longer",
        )
        .hint("run the tool again")
    })?;
    // `100.0` is an integer too.
    let number = |key: &str| args[key].as_f64().unwrap_or(0.0) as usize;
    let offset = number("offset");
    // Both forms of the answer hold it, and it is quoted in them.
    let limit = number("limit").min(shelf.largest / 4);
    let mut out = Map::new();
    out.insert("bytes".into(), text.len().into());
    let next = match args.get("grep").and_then(Value::as_str) {
        None => {
            let part = results::slice(&text, offset, limit);
            out.insert("text".into(), part.it.into());
            part.next
        }
        Some(pattern) => {
            let part = results::grep(&text, offset, limit, pattern);
            let line = |(offset, text)| json!({"offset": offset, "text": text});
            out.insert("lines".into(), part.it.into_iter().map(line).collect());
            part.next
        }
    };
    if let Some(next) = next {
        out.insert("next_offset".into(), next.into());
    }
    Ok(out)
}
