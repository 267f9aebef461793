//! `/export`, `/call` and `/run`: the tools for programs that speak in a provider's words, or in plain
//! JSON.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Caller, Cancel, Waits};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Body, Refused};
use super::status;
use crate::app::{App, Call};
use crate::dialect::function::{Format, Remark};
use crate::dialect::native;
use crate::store::tokens::Scope;
use crate::surface::function;
use crate::surface::principal::Principal;
use crate::surface::turnstile::{Pass, Turnstile};

/// Calls that are made or wait for their turn at once, of all and of one principal.
const MOST_CALLS: (usize, usize) = (1024, 256);

#[derive(Clone)]
struct Desk {
    app: Arc<App>,
    calls: Turnstile,
}

pub(super) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/export/{format}", get(export))
        .route("/call/{format}", post(call))
        .route("/run/{tool}", post(run))
        .with_state(Desk {
            app,
            calls: Turnstile::new(MOST_CALLS.0, MOST_CALLS.1),
        })
}

impl Desk {
    /// Lets somebody make a call who may.
    fn enter(&self, principal: &Principal) -> Result<Pass, Failure> {
        principal.need(Scope::InvokeTool)?;
        self.calls.enter(&principal.name).ok_or_else(|| {
            let why = "too many calls are made already";
            Failure::new(FailureKind::RateLimited, why).retryable()
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    strict: bool,
    /// Names, with commas between.
    only: Option<String>,
}

async fn export(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Path(format): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    principal.need(Scope::ReadRegistry)?;
    let only: Vec<String> = match wanted.only.as_deref() {
        None | Some("") => Vec::new(),
        Some(names) => names.split(',').map(str::to_owned).collect(),
    };
    let export = function::export(&desk.app, &format, wanted.strict, &only)?;
    let report = |it: &Remark| json!({"tool": it.tool, "at": it.at, "what": it.what});
    let report: Vec<Value> = export.report.iter().map(report).collect();
    Ok(Json(
        json!({"ok": true, "value": {"tools": export.tools, "report": report}}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    #[serde(default)]
    strict: bool,
}

/// Answers with what goes back to the model; a tool that fails is an answer too.
async fn call(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Path(format): Path<String>,
    Query(how): Query<How>,
    Body(body): Body<Value>,
) -> Answer {
    let _pass = desk.enter(&principal)?;
    let format = Format::named(&format).ok_or_else(|| {
        let known = Format::ALL.map(Format::name).join(", ");
        let why = format!("there are the formats {known}");
        Failure::new(FailureKind::NotFound, why)
    })?;
    let caller = Caller {
        name: principal.name,
    };
    let (answer, _) = function::answer(&desk.app, format, how.strict, &body, &caller).await?;
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approved {
    /// What a person approved.
    approval_id: Option<String>,
}

/// What `glee run --json` prints.
async fn run(
    State(desk): State<Desk>,
    Extension(principal): Extension<Principal>,
    Path(tool): Path<String>,
    Query(approved): Query<Approved>,
    Body(args): Body<Map<String, Value>>,
) -> Result<Response, Refused> {
    let _pass = desk.enter(&principal)?;
    let approval = approved.approval_id.map(|it| {
        it.parse().map_err(|_| {
            let why = "an approval's id is a UUID";
            Failure::new(FailureKind::InvalidInput, why)
        })
    });
    let call = Call {
        tool,
        args,
        caller: Caller {
            name: principal.name,
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: approval.transpose()?,
    };
    let outcome = desk.app.call(call).await;
    let status = match &outcome.result {
        Ok(_) => StatusCode::OK,
        Err(failure) => status::of(failure.kind),
    };
    Ok((status, Json(native::render(&outcome))).into_response())
}
