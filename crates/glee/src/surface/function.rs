//! Calls in the words of a model's provider, answered in the same.

use std::sync::Arc;

use glee_core::model::ToolSpec;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Map, Value, json};

use crate::app::{App, Call};
use crate::dialect::function::{self, Ask, Asks, Export, Format};
use crate::dialect::openapi;

/// Everything that tools can be exported as, by name.
pub(super) const EXPORTS: [&str; 6] = [
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "mcp",
    "openapi",
];

/// The tools as another program wants them, and what was lost on the way.
pub(super) fn export(
    app: &App,
    format: &str,
    strict: bool,
    only: &[String],
) -> Result<Export, Failure> {
    let snapshot = app.tools();
    for name in only {
        snapshot.find(name)?;
    }
    let all: Vec<&ToolSpec> = snapshot.offered().map(|it| &**it).collect();
    // By the name it has among all, or a call would reach another tool.
    let names = function::names(Format::named(format).unwrap_or(Format::OpenAi), &all);
    let tools: Vec<(&ToolSpec, String)> = all
        .into_iter()
        .zip(names)
        .filter(|(it, _)| only.is_empty() || only.contains(&it.name))
        .collect();
    let whole = |tools| Export {
        tools,
        report: Vec::new(),
    };
    match (format, Format::named(format)) {
        ("mcp", _) => Ok(whole(
            json!({"tools": super::mcp::definitions(app, &tools)}),
        )),
        ("openapi", _) => Ok(whole(openapi::document(&tools))),
        (name, Some(format)) if EXPORTS.contains(&name) => {
            Ok(function::export(format, strict, &tools))
        }
        _ => Err(Failure::new(
            FailureKind::InvalidInput,
            format!("there are the formats {}", EXPORTS.join(", ")),
        )),
    }
}

/// Makes the calls of a model's message, one after the other. Also says how the first one failed that
/// did.
pub(super) async fn answer(
    app: &App,
    format: Format,
    strict: bool,
    body: &Value,
    caller: &Caller,
    cancel: &Cancel,
) -> Result<(Value, Option<FailureKind>), Failure> {
    let Asks { calls, is_list } =
        function::read(format, body).map_err(|why| Failure::new(FailureKind::InvalidInput, why))?;
    let mut answers = Vec::new();
    let mut failed = None;
    for ask in calls {
        let (call, wrong) = meant(app, format, strict, &ask, caller);
        let call = Call {
            cancel: cancel.clone(),
            ..call
        };
        let outcome = match wrong {
            None => app.call(call).await,
            Some(why) => app.turn_away(call, why).await,
        };
        failed = failed.or(outcome.result.as_ref().err().map(|it| it.kind));
        let largest = app.mcp().result_bytes;
        answers.push(function::write(format, &ask, &outcome, largest));
    }
    let answer = match is_list {
        true => answers.into(),
        false => answers.pop().unwrap_or_default(),
    };
    Ok((answer, failed))
}

/// The call that a model means, by the name it was shown.
fn meant(
    app: &App,
    format: Format,
    strict: bool,
    ask: &Ask,
    caller: &Caller,
) -> (Call, Option<Failure>) {
    let snapshot = app.tools();
    let specs: Vec<&ToolSpec> = snapshot.offered().map(|it| &**it).collect();
    let own = specs.iter().find(|it| it.name == ask.name);
    let shown = || {
        let names = function::names(format, &specs);
        names
            .iter()
            .position(|it| *it == ask.name)
            .map(|at| &specs[at])
    };
    let spec = own.or_else(shown);
    let (args, wrong) = match &ask.args {
        Ok(args) => (args.clone(), None),
        Err(why) => {
            let why = Failure::new(FailureKind::InvalidInput, why.clone());
            (Map::new(), Some(why))
        }
    };
    let call = Call {
        tool: spec.map_or(&ask.name, |it| &it.name).clone(),
        args: match spec {
            Some(spec) => function::restore(format, strict, spec, args),
            None => args,
        },
        caller: caller.clone(),
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: None,
    };
    (call, wrong)
}
