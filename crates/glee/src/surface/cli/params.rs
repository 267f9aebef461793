//! Arguments from the command line: `--params` as a whole, `-p key=value` one by one.

use std::fs;
use std::io::{self, Read};

use anyhow::{Context, bail};
use glee_core::json;
use glee_core::model::ToolSpec;
use serde_json::{Map, Value};

/// Most bytes of arguments that are read from a file or a pipe.
const MAX_BYTES: u64 = 16 << 20;

/// `--params` first, then each `-p` on top of it. The schema says how a `-p` value is meant: for a
/// string it is taken as it is, for anything else it is JSON.
pub(super) fn read(
    whole: Option<&str>,
    pairs: &[String],
    spec: Option<&ToolSpec>,
) -> anyhow::Result<Map<String, Value>> {
    let mut params = match whole {
        Some(source) => self::whole(source)?,
        None => Map::new(),
    };
    let mut seen = Vec::new();
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=') else {
            bail!("`-p {pair}` has no value; write `-p {pair}=…`");
        };
        if seen.contains(&key) {
            bail!("`{key}` is given twice");
        }
        seen.push(key);
        params.insert(
            key.to_owned(),
            value(text, spec.and_then(|it| type_of(it, key)))?,
        );
    }
    Ok(params)
}

fn whole(source: &str) -> anyhow::Result<Map<String, Value>> {
    let text = match source.strip_prefix('@') {
        Some(path) => bounded(fs::File::open(path).with_context(|| path.to_owned())?)
            .with_context(|| path.to_owned())?,
        None if source == "-" => bounded(io::stdin())?,
        None => source.to_owned(),
    };
    match json::parse(&text).context("--params")? {
        Value::Object(map) => Ok(map),
        other => bail!("--params must be a JSON object, not {other}"),
    }
}

fn bounded(from: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    from.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("more than {} MiB of arguments", MAX_BYTES >> 20);
    }
    Ok(text)
}

fn type_of<'a>(spec: &'a ToolSpec, key: &str) -> Option<&'a Value> {
    spec.inputs
        .properties()
        .find(|(name, _)| *name == key)
        .and_then(|(_, it)| it.get("type"))
}

fn value(text: &str, kind: Option<&Value>) -> anyhow::Result<Value> {
    let is = |word: &str| match kind {
        Some(Value::String(one)) => one == word,
        Some(Value::Array(many)) => many.iter().any(|it| it == word),
        _ => false,
    };
    if is("string") {
        return Ok(text.into());
    }
    // A word is a word; what sets out to be JSON must be JSON.
    match json::parse(text) {
        Ok(value) => Ok(value),
        Err(err @ json::JsonError::Inexact(_)) => Err(err.into()),
        Err(err) if text.trim_start().starts_with(['{', '[']) => Err(err.into()),
        Err(_) => Ok(text.into()),
    }
}
