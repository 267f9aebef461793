//! `/export`, `/call` and `/run`: the tools for programs that speak in a provider's words, or in plain
//! JSON.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Map, Value, json};

use super::answer::{self, Answer, Anything, Body, Refused};
use super::bundles::Desk;
use super::operation::Operation;
use super::params::{Kind, Param, Place, Query};
use crate::app::Call;
use crate::dialect::function::{Format, Remark};
use crate::store::tokens::Scope;
use crate::surface::function::{self, EXPORTS};
use crate::surface::principal::Principal;
use crate::surface::turnstile::Pass;

const STRICT: Param = Param {
    name: "strict",
    about: "Only schemas that the provider can hold the model to",
    kind: Kind::Flag,
};
const EXPORT: &[Param] = &[
    STRICT,
    Param {
        name: "only",
        about: "Only these tools",
        kind: Kind::List,
    },
];
const CALL: &[Param] = &[STRICT];
const RUN: &[Param] = &[
    Param {
        name: "approval_id",
        about: "Runs what a person approved under this id, once",
        kind: Kind::Id,
    },
    Param {
        name: "max_bytes",
        about: "A larger value is given by its beginning, and wholly at `/results`",
        kind: Kind::Count,
    },
];

pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/export/{format}",
            "exportTools",
            "List the tools as openai, openai-responses, anthropic, gemini, mcp or openapi",
            export,
            desk.clone(),
        )
        .scope(Scope::ReadRegistry)
        .one_of("format", &EXPORTS)
        .query(EXPORT)
        .gives(
            200,
            "`tools`, and a `report` of what could not be told",
            "Value",
        )
        .fails(&[400, 404, 409]),
        Operation::new(
            "POST",
            "/call/{format}",
            "callTools",
            "Make the tool calls of a model's message; a tool that fails is an answer too",
            call,
            desk.clone(),
        )
        .scope(Scope::InvokeTool)
        .one_of("format", &Format::ALL.map(Format::name))
        .query(CALL)
        .body::<Value>()
        .gives(200, "What goes back to the model", "Answer")
        .fails(&[400, 404, 429, 500]),
        Operation::new(
            "POST",
            "/run/{tool}",
            "runTool",
            "Call a tool by its name; the body is its arguments",
            run,
            desk.clone(),
        )
        .scope(Scope::InvokeTool)
        .query(RUN)
        .body::<Map<String, Value>>()
        .gives(200, "What the tool gave", "Value")
        .fails(&[400, 404, 409, 424, 429, 500, 502, 503, 504]),
    ]
}

impl Desk {
    /// Lets somebody make a call.
    fn enter(&self, by: &Principal) -> Result<Pass, Failure> {
        self.calls.enter(&by.name).ok_or_else(|| {
            let why = "too many calls are under way already";
            Failure::new(FailureKind::RateLimited, why).retryable()
        })
    }
}

async fn export(State(desk): State<Desk>, Place(format): Place<String>, query: Query) -> Answer {
    let query = query.check(EXPORT)?;
    let only: Vec<String> = query.list("only").into_iter().map(str::to_owned).collect();
    let export = function::export(&desk.app, &format, query.flag("strict")?, &only)?;
    let report = |it: &Remark| json!({"tool": it.tool, "at": it.at, "what": it.what});
    let report: Vec<Value> = export.report.iter().map(report).collect();
    Ok(Json(
        json!({"ok": true, "value": {"tools": export.tools, "report": report}}),
    ))
}

async fn call(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(format): Place<String>,
    query: Query,
    Anything(body): Anything,
) -> Answer {
    let _pass = desk.enter(&by)?;
    let strict = query.check(CALL)?.flag("strict")?;
    let format = Format::named(&format).ok_or_else(|| {
        let known = Format::ALL.map(Format::name).join(", ");
        let why = format!("there are the formats {known}");
        Failure::new(FailureKind::NotFound, why)
    })?;
    let caller = Caller { name: by.name };
    let (answer, _) =
        function::answer(&desk.app, format, strict, &body, &caller, &Cancel::never()).await?;
    Ok(Json(answer))
}

/// What `glee run --json` prints.
async fn run(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(tool): Place<String>,
    query: Query,
    Body(args): Body<Map<String, Value>>,
) -> Result<Response, Refused> {
    let _pass = desk.enter(&by)?;
    let query = query.check(RUN)?;
    let owner = by.name.clone();
    let most = query.count("max_bytes")?;
    let call = Call {
        tool,
        args,
        caller: Caller { name: by.name },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: query.id("approval_id")?,
    };
    let outcome = desk.app.call(call).await;
    let body = desk.told(&outcome, &owner, most);
    Ok(answer::outcome(&outcome, body))
}
