//! The examples of a tool, run before a person is asked about it: in the sandbox, without network,
//! secrets or anything to write.

use std::sync::Arc;

use glee_core::example::compare;
use glee_core::model::{Example, Exec, ToolSpec};
use glee_core::outcome::FailureKind;
use glee_core::permission::Network;
use glee_core::port::Caller;

use crate::app::App;
use crate::store::reviews::{Tally, Tried};

/// Most examples that are run; the first ones.
const MOST_EXAMPLES: usize = 10;
/// Longest text that is kept of what one of them did, in bytes.
const LONGEST_DETAIL: usize = 2000;

/// How each example ran, or why it was not run.
pub(super) async fn all(app: &App, spec: &Arc<ToolSpec>, by: &Caller) -> Vec<Tried> {
    let obstacle = obstacle(app, spec).await;
    let mut results = Vec::new();
    for (at, example) in spec.examples.iter().enumerate() {
        let (result, detail) = match &obstacle {
            Some(why) => (Tally::NotRun, why.clone()),
            None if at >= MOST_EXAMPLES => (
                Tally::NotRun,
                format!("only the first {MOST_EXAMPLES} are run"),
            ),
            None => one(app, spec, example, by).await,
        };
        let example = match example.description.as_str() {
            "" => format!("example {}", at + 1),
            description => description.to_owned(),
        };
        results.push(Tried {
            example: shortened(&example),
            result,
            detail: shortened(&detail),
        });
    }
    results
}

/// What keeps the examples from being run before anybody has approved the tool.
async fn obstacle(app: &App, spec: &ToolSpec) -> Option<String> {
    let permissions = &spec.permissions;
    let why = if matches!(spec.exec, Exec::Http(_)) {
        "it sends a request to somebody else"
    } else if permissions.network != Network::None {
        "it uses the network"
    } else if !permissions.secrets.is_empty() {
        "it uses secrets"
    } else if !permissions.write.is_empty() {
        "it writes files"
    } else if !app.cage().can_hold(spec, app.project().root()).await {
        "nothing on this machine would hold it to its permissions"
    } else {
        return None;
    };
    Some(why.to_owned())
}

async fn one(app: &App, spec: &Arc<ToolSpec>, example: &Example, by: &Caller) -> (Tally, String) {
    let outcome = app
        .trial(spec.clone(), example.params.clone(), by.clone())
        .await;
    match outcome.result {
        Ok(output) => match compare(spec, example, &output) {
            Ok(()) => (Tally::Passed, String::new()),
            Err(why) => (Tally::Failed, why),
        },
        Err(failure) => {
            let result = match failure.kind {
                FailureKind::ApprovalRequired | FailureKind::SandboxUnavailable => Tally::NotRun,
                _ => Tally::Failed,
            };
            let code = failure.kind.code();
            (result, format!("{} [{code}]", failure.message))
        }
    }
}

fn shortened(text: &str) -> String {
    match text.len() > LONGEST_DETAIL {
        true => format!("{}…", &text[..text.floor_char_boundary(LONGEST_DETAIL)]),
        false => text.to_owned(),
    }
}
