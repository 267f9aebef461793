//! What a client gets for an outcome.
//!
//! Some clients read only the text, some only the structured content, so one always says what the
//! other says. Clients check structured content against the tool's output schema and give nothing to
//! the model when it breaks it, so what cannot fit is told as an error, in words.

use glee_core::content::{Block, Body, Content};
use glee_core::model::{Format, ToolSpec};
use glee_core::outcome::{Failure, Outcome, Output, head};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::{Map, Value, json};

use super::definition::{is_object, output_schema};
use crate::store::results::{KEPT_FOR, Results};

/// Where a large result is kept, for whom, and what counts as large.
pub(super) struct Shelf<'a> {
    pub(super) results: &'a Results,
    pub(super) owner: &'a str,
    pub(super) largest: usize,
}

pub(super) const SCHEME: &str = "glee://results/";

pub(super) fn render(
    outcome: Outcome,
    spec: Option<&ToolSpec>,
    shelf: &Shelf<'_>,
) -> CallToolResult {
    let mut result = match outcome.result {
        Ok(output) => success(output, spec, shelf),
        Err(failure) => error(&failure, shelf),
    };
    let mut meta = Map::new();
    meta.insert("dev.glee/call".into(), outcome.id.to_string().into());
    result.meta = Some(MetaObject(meta));
    result
}

/// A failure in words; nothing that could be taken for the tool's value.
pub(super) fn error(failure: &Failure, shelf: &Shelf<'_>) -> CallToolResult {
    let text = failure.in_words(shelf.largest);
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn success(output: Output, spec: Option<&ToolSpec>, shelf: &Shelf<'_>) -> CallToolResult {
    let schema = spec.and_then(output_schema);
    let notes = output.notes();
    if !notes.is_empty() && schema.is_some() {
        let text = format!("{}\nvalue: {}", notes.join("\n"), output.value);
        return large(text, true, shelf);
    }
    if output.is_content
        && let Ok(content) = Content::parse(&output.value)
    {
        return typed(content, shelf);
    }
    if let (Value::String(text), true) = (&output.value, notes.is_empty() && schema.is_none())
        && spec.is_none_or(|it| it.outputs.format == Format::Text)
        && !reads_as_json(text)
    {
        return large(text.clone(), false, shelf);
    }
    let structured = match output.value {
        Value::Object(map) if notes.is_empty() && schema.is_none_or(is_object) => map,
        value => {
            let mut wrapped = Map::new();
            wrapped.insert("result".into(), value);
            if !notes.is_empty() {
                wrapped.insert("warnings".into(), notes.into());
            }
            wrapped
        }
    };
    whole_or_large(structured, schema.is_some(), shelf)
}

fn typed(content: Content, shelf: &Shelf<'_>) -> CallToolResult {
    let mut left = shelf.largest;
    let mut blocks = Vec::new();
    for it in content.blocks {
        match it {
            Block::Text(text)
            | Block::Resource {
                body: Body::Text(text),
                ..
            } if text.len() > left => {
                let (parts, link) = part(text, shelf);
                blocks.push(ContentBlock::text(parts.to_string()));
                blocks.extend(link);
                left = 0;
            }
            other => {
                left -= words(&other).min(left);
                blocks.push(block(other));
            }
        }
    }
    let structured = content.structured.map(Value::Object).map(|it| {
        let text = it.to_string();
        match text.len() > shelf.largest {
            true => {
                let (parts, link) = part(text, shelf);
                blocks.extend(link);
                parts
            }
            false => it,
        }
    });
    let mut result = CallToolResult::success(blocks);
    result.structured_content = structured;
    result
}

/// How much of a model's attention a block takes; what is not text is not read as text.
fn words(block: &Block) -> usize {
    match block {
        Block::Text(text)
        | Block::Resource {
            body: Body::Text(text),
            ..
        } => text.len(),
        Block::Image { .. } | Block::Audio { .. } | Block::Resource { .. } | Block::Link { .. } => {
            0
        }
    }
}

pub(super) fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { data, mime_type } => ContentBlock::image(data, mime_type),
        Block::Audio { data, mime_type } => ContentBlock::audio(data, mime_type),
        Block::Resource {
            uri,
            mime_type,
            body,
        } => {
            let contents = match body {
                Body::Text(text) => ResourceContents::text(text, uri),
                Body::Blob(data) => ResourceContents::blob(data, uri),
            };
            ContentBlock::resource(match mime_type {
                Some(it) => contents.with_mime_type(it),
                None => contents,
            })
        }
        Block::Link {
            uri,
            name,
            description,
            mime_type,
        } => {
            let mut link = Resource::new(uri, name);
            link.description = description;
            link.mime_type = mime_type;
            ContentBlock::resource_link(link)
        }
    }
}

/// A link in words, for clients that know no links.
pub(super) fn spell_link(block: &mut ContentBlock) {
    if let ContentBlock::ResourceLink(link) = block {
        *block = ContentBlock::text(format!("{}: {}", link.name, link.uri));
    }
}

/// An object as structured content and as text, when it is not too large.
pub(super) fn whole_or_large(
    structured: Map<String, Value>,
    has_schema: bool,
    shelf: &Shelf<'_>,
) -> CallToolResult {
    let structured = Value::Object(structured);
    // What is surely too large is not written twice.
    let text = (texts(&structured) <= shelf.largest).then(|| structured.to_string());
    let Some(text) = text.filter(|it| it.len() <= shelf.largest) else {
        // In lines, so that it can be searched.
        return large(format!("{structured:#}"), has_schema, shelf);
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

/// How long the texts of a value are; as JSON it is longer.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(map) => map.iter().map(|(key, it)| key.len() + texts(it)).sum(),
        _ => 0,
    }
}

/// A text, or its two ends and where to read the rest.
fn large(text: String, is_error: bool, shelf: &Shelf<'_>) -> CallToolResult {
    if text.len() <= shelf.largest {
        let blocks = vec![ContentBlock::text(text)];
        return match is_error {
            true => CallToolResult::error(blocks),
            false => CallToolResult::success(blocks),
        };
    }
    let (parts, link) = part(text, shelf);
    let mut blocks = vec![ContentBlock::text(parts.to_string())];
    blocks.extend(link);
    if is_error {
        return CallToolResult::error(blocks);
    }
    let mut result = CallToolResult::success(blocks);
    result.structured_content = Some(parts);
    result
}

/// The two ends of a text, and a link to the whole, if it is kept.
fn part(text: String, shelf: &Shelf<'_>) -> (Value, Option<ContentBlock>) {
    let end = shelf.largest / 4;
    let bytes = text.len();
    let mut parts = json!({"head": head(&text, end), "tail": tail(&text, end), "bytes": bytes});
    let ran =
        format!("the tool has run; its result has {bytes} bytes, and these are its two ends.");
    let Some(handle) = shelf.results.keep(shelf.owner, text) else {
        let note = format!("{ran} It is too large to be kept, so ask the tool for less");
        parts["note"] = note.into();
        return (parts, None);
    };
    let uri = format!("{SCHEME}{handle}");
    let minutes = KEPT_FOR.as_secs() / 60;
    let note = format!(
        "{ran} Read the rest within {minutes} minutes with glee_result_read(handle: \"{handle}\", offset, limit, grep)"
    );
    parts["handle"] = handle.as_str().into();
    parts["uri"] = uri.as_str().into();
    parts["note"] = note.into();
    let link = Resource::new(uri, handle)
        .with_description("the whole result")
        .with_mime_type("text/plain")
        .with_size(bytes as u64);
    (parts, Some(ContentBlock::resource_link(link)))
}

/// Whether a client that looks for JSON in a text would find some.
fn reads_as_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn tail(text: &str, bytes: usize) -> String {
    format!("…{}", &text[text.ceil_char_boundary(text.len() - bytes)..])
}
