//! `/results`: what was too large for an answer, in parts.

use axum::extract::State;
use axum::{Extension, Json};
use glee_core::outcome::{Failure, FailureKind, Outcome, head};
use serde_json::{Value, json};

use super::answer::Answer;
use super::bundles::Desk;
use super::operation::Operation;
use super::params::{Kind, Param, Place, Query};
use crate::dialect::native;
use crate::store::results::{KEPT_FOR, grep, slice};
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;

/// Given at once, unless less is asked for, and at most.
const USUAL: usize = 64 << 10;
const MOST: usize = 1 << 20;

const READ: &[Param] = &[
    Param {
        name: "offset",
        about: "Where to begin, in bytes",
        kind: Kind::Count,
    },
    Param {
        name: "limit",
        about: "How much is given, in bytes; 65536 unless given, 1048576 at most",
        kind: Kind::Some,
    },
    Param {
        name: "grep",
        about: "Only lines that hold this, in upper or lower case",
        kind: Kind::Text,
    },
];

pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/results/{resultID}",
            "readResult",
            "A result that was too large for an answer; only who got its id can read it, for 15 minutes",
            read,
            desk.clone(),
        )
        .scope(Scope::InvokeTool)
        .query(READ)
        .gives(200, "A part of it", "Part")
        .fails(&[400, 404]),
    ]
}

async fn read(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(id): Place<String>,
    query: Query,
) -> Answer {
    let query = query.check(READ)?;
    let offset = query.count("offset")?.unwrap_or(0);
    let limit = query.some("limit")?.unwrap_or(USUAL).min(MOST);
    let text = desk.app.results().get(&by.name, &id).ok_or_else(|| {
        let why = "there is no such result, or no longer";
        Failure::new(FailureKind::NotFound, why).hint("call the tool again")
    })?;
    let mut out = json!({"ok": true, "bytes": text.len()});
    let next = match query.text("grep") {
        None => {
            let part = slice(&text, offset, limit);
            out["text"] = part.it.into();
            part.next
        }
        Some(pattern) => {
            let part = grep(&text, offset, limit, pattern);
            let line = |(offset, text)| json!({"offset": offset, "text": text});
            out["lines"] = part.it.into_iter().map(line).collect();
            part.next
        }
    };
    if let Some(next) = next {
        out["nextOffset"] = next.into();
    }
    Ok(Json(out))
}

impl Desk {
    /// What became of a call. A value that is larger than its caller wants is given by its beginning, and kept.
    pub(super) fn told(&self, outcome: &Outcome, caller: &str, most: Option<usize>) -> Value {
        let mut body = native::render(outcome);
        let (Ok(output), Some(most)) = (&outcome.result, most) else {
            return body;
        };
        let text = match &output.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text.len() <= most {
            return body;
        }
        let (bytes, begin) = (text.len(), head(&text, most));
        let begun = format!("the value has {bytes} bytes and this is its beginning, as text");
        let warning = match self.app.results().keep(caller, text) {
            Some(id) => {
                let minutes = KEPT_FOR.as_secs() / 60;
                body["meta"]["result"] = json!({"id": id, "bytes": bytes});
                format!("{begun}; GET /results/{id} reads all of it, for {minutes} minutes")
            }
            None => format!("{begun}; it is too large to be kept, so ask the tool for less"),
        };
        body["value"] = begin.into();
        let mut warnings: Vec<Value> = output.warnings.iter().cloned().map(Value::from).collect();
        warnings.push(warning.into());
        body["warnings"] = warnings.into();
        body
    }
}
