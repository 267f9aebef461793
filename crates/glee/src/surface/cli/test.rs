//! `glee test`: the examples of the manifests, run as tests.

use glee_core::example::compare;
use glee_core::model::{Example, ToolSpec};
use glee_core::outcome::FailureKind;
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Value, json};

use super::run::stop_signal;
use super::status::{self, Status};
use super::{Session, print};
use crate::app::{App, Call};
use crate::exec::Stay;

/// Run the examples of the manifests as tests.
///
/// Every example's params are checked against the schema and the tool is run with them; the result
/// must fit `outputs.schema`, and `expected_output` where there is one: exactly, or with "..." for any
/// value and ... for further ones. An example that needs a secret or a person who are not there is
/// reported as not run.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these tools
    names: Vec<String>,
}

enum Verdict {
    Passed,
    Failed(String),
    NotRun(String),
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::ForMany)?;
    let tools = app.tools();
    for name in &args.names {
        if let Err(failure) = tools.find(name) {
            print::refusal(&failure, session.json)?;
            return Ok(status::of(failure.kind));
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut results = Vec::new();
    for spec in tools
        .tools()
        .filter(|it| args.names.is_empty() || args.names.contains(&it.name))
    {
        for (at, example) in spec.examples.iter().enumerate() {
            let Some(verdict) = runtime.block_on(try_example(&app, spec, example)) else {
                return Ok(Status::Cancelled);
            };
            let title = match example.description.as_str() {
                "" => format!("{} example {}", spec.name, at + 1),
                description => format!("{}: {description}", spec.name),
            };
            if !session.json {
                print::out(&match &verdict {
                    Verdict::Passed => format!("ok       {title}"),
                    Verdict::Failed(why) => format!("FAILED   {title}\n         {why}"),
                    Verdict::NotRun(why) => format!("not run  {title}\n         {why}"),
                })?;
            }
            results.push((title, verdict));
        }
    }
    let broken: Vec<_> = tools
        .broken()
        .filter(|(name, _)| args.names.is_empty() || args.names.iter().any(|it| it == name))
        .collect();
    let status = summary(session, &results, &broken);
    app.tell_the_rest();
    status
}

fn summary(
    session: &Session,
    results: &[(String, Verdict)],
    broken: &[(&str, &str)],
) -> anyhow::Result<Status> {
    let count = |is: fn(&Verdict) -> bool| results.iter().filter(|(_, it)| is(it)).count();
    let passed = count(|it| matches!(it, Verdict::Passed));
    let failed = count(|it| matches!(it, Verdict::Failed(_)));
    let not_run = count(|it| matches!(it, Verdict::NotRun(_)));
    if session.json {
        let examples: Vec<Value> = results
            .iter()
            .map(|(title, verdict)| match verdict {
                Verdict::Passed => json!({"example": title, "result": "passed"}),
                Verdict::Failed(why) => {
                    json!({"example": title, "result": "failed", "reason": why})
                }
                Verdict::NotRun(why) => {
                    json!({"example": title, "result": "not run", "reason": why})
                }
            })
            .collect();
        let broken: Vec<Value> = broken
            .iter()
            .map(|(name, why)| json!({"tool": name, "reason": why}))
            .collect();
        print::json(
            &json!({"passed": passed, "failed": failed, "not_run": not_run, "broken": broken, "examples": examples}),
        )?;
    } else {
        for (name, why) in broken {
            print::error(
                &format!("`{name}` cannot be used: {why}"),
                Some("run `glee lint`"),
            );
        }
        let tail = if not_run > 0 {
            format!(", {not_run} not run")
        } else {
            String::new()
        };
        print::out(&format!("{passed} passed, {failed} failed{tail}"))?;
    }
    Ok(if failed > 0 || !broken.is_empty() {
        Status::Failed
    } else {
        Status::Ok
    })
}

/// Nothing when the person no longer wants to know.
async fn try_example(app: &App, spec: &ToolSpec, example: &Example) -> Option<Verdict> {
    let outcome = app
        .call(Call {
            tool: spec.name.clone(),
            args: example.params.clone(),
            caller: Caller {
                name: "user".to_owned(),
            },
            timeout: None,
            cancel: Cancel::when(stop_signal()),
            party: std::sync::Arc::new(Waits),
            approval: None,
        })
        .await;
    Some(match outcome.result {
        Ok(output) => match compare(spec, example, &output) {
            Ok(()) => Verdict::Passed,
            Err(why) => Verdict::Failed(why),
        },
        Err(failure) => match failure.kind {
            FailureKind::Cancelled => return None,
            FailureKind::ApprovalRequired | FailureKind::SecretNotFound => {
                Verdict::NotRun(failure.message)
            }
            kind => Verdict::Failed(format!("{} [{}]", failure.message, kind.code())),
        },
    })
}
