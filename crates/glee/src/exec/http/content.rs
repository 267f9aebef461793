//! Bodies and query pairs: values become text here, and no argument can add a field to them.

use glee_core::outcome::Failure;
use glee_core::template::{Scope, Template, ValueTemplate, as_text};
use glee_core::url_template::encode;
use reqwest::header::HeaderValue;
use serde_json::Value;

use super::invalid;
use super::request::too_large;

/// What the author says the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unsaid,
    Json,
    Form,
    Other,
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";

impl Kind {
    pub(super) fn of(content_type: Option<&HeaderValue>) -> Kind {
        let Some(value) = content_type else {
            return Kind::Unsaid;
        };
        let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        match text.split(';').next().unwrap_or_default().trim() {
            FORM => Kind::Form,
            essence if essence == JSON || essence.ends_with("+json") => Kind::Json,
            _ => Kind::Other,
        }
    }
}

/// The filled body, and the content type it has if the author named none.
pub(super) fn fill(
    body: &ValueTemplate,
    kind: Kind,
    scope: &Scope<'_>,
) -> Result<Option<(String, &'static str)>, Failure> {
    match body {
        ValueTemplate::Text(template) if template.whole().is_none() => text(template, kind, scope),
        _ => Ok(match body.fill(scope).map_err(too_large)? {
            None | Some(Value::Null) => None,
            Some(value) => Some(self::value(value, kind)?),
        }),
    }
}

/// `key=value` pairs, encoded: a list repeats the key, an object is JSON text, `null` is nothing.
pub(super) fn pairs(key: &str, value: Value) -> Vec<String> {
    let values = match value {
        Value::Array(items) => items,
        value => vec![value],
    };
    values
        .into_iter()
        .filter_map(as_text)
        .map(|text| format!("{}={}", encode(key), encode(&text)))
        .collect()
}

/// A body written as text. Where the text has a grammar of its own, an argument must not be able to
/// speak it.
fn text(
    template: &Template,
    kind: Kind,
    scope: &Scope<'_>,
) -> Result<Option<(String, &'static str)>, Failure> {
    let filled = match kind {
        Kind::Json if template.holes().next().is_some() => {
            return Err(invalid(
                "the JSON body is written as text with placeholders, into which an argument could write fields",
            )
            .hint("write the body as a mapping in the manifest, not as text"));
        }
        Kind::Form => template.text_with(scope, encode),
        Kind::Unsaid | Kind::Json | Kind::Other => template.text(scope),
    };
    Ok(filled.map_err(too_large)?.map(|text| (text, TEXT)))
}

fn value(value: Value, kind: Kind) -> Result<(String, &'static str), Failure> {
    match (value, kind) {
        (Value::String(text), Kind::Unsaid | Kind::Form | Kind::Other) => Ok((text, TEXT)),
        (Value::Object(fields), Kind::Form) => {
            let pairs: Vec<String> = fields
                .into_iter()
                .flat_map(|(key, value)| pairs(&key, value))
                .collect();
            Ok((pairs.join("&"), FORM))
        }
        (_, Kind::Form) => Err(invalid(
            "a form body must be an object whose fields are the form's fields",
        )),
        (value, Kind::Unsaid | Kind::Json | Kind::Other) => Ok((value.to_string(), JSON)),
    }
}
