//! glee's own form of an outcome: `{ok: true, value, …}` or `{ok: false, error: {…}}`.

use glee_core::outcome::{Failure, Outcome, Output, Truncated};
use serde_json::{Map, Value, json};

pub fn render(outcome: &Outcome) -> Value {
    let mut out = Map::new();
    let mut meta = Map::new();
    meta.insert("id".into(), outcome.id.to_string().into());
    meta.insert("tool".into(), outcome.tool.clone().into());
    if let Some(version) = &outcome.meta.version {
        meta.insert("version".into(), version.clone().into());
    }
    if let Some(kind) = outcome.meta.kind {
        meta.insert("kind".into(), kind.into());
    }
    if let Some(held) = &outcome.meta.held {
        let sandbox = json!({"tier": held.by, "missing": held.missing});
        meta.insert("sandbox".into(), sandbox);
    }
    meta.insert(
        "duration_ms".into(),
        (outcome.meta.duration.as_micros() as f64 / 1000.0).into(),
    );
    match &outcome.result {
        Ok(Output {
            value,
            warnings,
            truncated,
            ..
        }) => {
            out.insert("ok".into(), true.into());
            out.insert("value".into(), value.clone());
            if !warnings.is_empty() {
                out.insert("warnings".into(), warnings.clone().into());
            }
            if let Some(Truncated { kept, total }) = truncated {
                meta.insert("truncated".into(), json!({"kept": kept, "total": total}));
            }
        }
        Err(failure) => {
            out.insert("ok".into(), false.into());
            out.insert("error".into(), error(failure));
        }
    }
    out.insert("meta".into(), meta.into());
    Value::Object(out)
}

pub fn error(failure: &Failure) -> Value {
    let mut out = Map::new();
    out.insert("code".into(), failure.kind.code().into());
    out.insert("message".into(), failure.message.clone().into());
    out.insert("details".into(), failure.details.clone().into());
    if let Some(hint) = &failure.hint {
        out.insert("hint".into(), hint.clone().into());
    }
    out.insert("retryable".into(), failure.retryable.into());
    Value::Object(out)
}
