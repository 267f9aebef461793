//! Calls that go on while their caller is away and comes back for the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use glee_core::elicit::Asked;
use glee_core::model::ToolSpec;
use glee_core::outcome::FailureKind;
use glee_core::port::{Approver, Caller, Cancel, Later, Note, Party, Supply};
use rmcp::ErrorData;
use rmcp::model::Task;
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Map, Value};

use super::line::{Reply, read, request};
use super::{Server, protocol, result};

/// Tasks of one principal that run at once.
const MOST_RUNNING: usize = 64;
/// How long an answer can be fetched, in milliseconds: an hour, as long as a tool may run.
const KEPT_MS: u64 = 3_600_000;

/// Where the tasks of each principal are. Nobody sees another's.
#[derive(Default)]
pub(super) struct Desks(Mutex<HashMap<String, TaskManager>>);

impl Desks {
    pub(super) fn of(&self, caller: &Caller) -> TaskManager {
        let mut desks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        desks.entry(caller.name.clone()).or_default().clone()
    }
}

impl Server {
    pub(super) fn spawn(
        &self,
        tool: String,
        args: Map<String, Value>,
        caller: Caller,
        spec: Option<Arc<ToolSpec>>,
    ) -> Result<Task, ErrorData> {
        let desk = self.shared.desks.of(&caller);
        if desk.running_task_count() >= MOST_RUNNING {
            let why = format!("{MOST_RUNNING} tasks are running already");
            return Err(ErrorData::invalid_request(why, None));
        }
        let server = self.clone();
        let options = TaskOptions::new()
            .with_ttl_ms(KEPT_MS)
            .with_poll_interval_ms(500);
        Ok(desk.spawn(options, move |context| {
            Box::pin(async move {
                let stop = context.clone();
                let cancel = Cancel::when(async move { stop.cancelled().await });
                let party = Arc::new(Away(context));
                let outcome = server.run(tool, args, caller.clone(), cancel, party).await;
                match &outcome.result {
                    Err(failure) if failure.kind == FailureKind::Cancelled => {
                        Err(TaskExit::Cancelled)
                    }
                    // What never ran has no result, not even a bad one.
                    Err(failure) if is_refusal(failure.kind) => {
                        Err(TaskExit::Error(protocol(failure.clone())))
                    }
                    _ => Ok(result::render(
                        &outcome,
                        spec.as_deref(),
                        &server.shelf(&caller),
                    )),
                }
            })
        }))
    }
}

fn is_refusal(kind: FailureKind) -> bool {
    match kind {
        FailureKind::NotFound
        | FailureKind::Disabled
        | FailureKind::SecretNotFound
        | FailureKind::SandboxUnavailable
        | FailureKind::RateLimited
        | FailureKind::Internal => true,
        FailureKind::InvalidInput
        | FailureKind::InvalidPath
        | FailureKind::FileNotFound
        | FailureKind::PermissionDenied
        | FailureKind::RuleDenied
        | FailureKind::ApprovalRequired
        | FailureKind::ApprovalDenied
        | FailureKind::HostNotAllowed
        | FailureKind::HttpError
        | FailureKind::ExecutionError
        | FailureKind::Timeout
        | FailureKind::Cancelled
        | FailureKind::OutputInvalid
        | FailureKind::Conflict => false,
    }
}

/// A caller who is away: notes and questions wait at the desk.
struct Away(TaskContext);

impl Party for Away {
    fn hear(&self, note: Note) {
        match note {
            Note::Progress {
                done,
                total,
                message,
            } => {
                let of = total.map_or(String::new(), |it| format!(" of {it}"));
                let message = message.map_or(String::new(), |it| format!(": {it}"));
                self.0.set_status_message(format!("{done}{of}{message}"));
            }
            Note::Log { text, .. } => self.0.set_status_message(text),
        }
    }

    fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async move {
            let open = asked.iter().filter_map(|it| Some((it, request(&it.what)?)));
            let answers = join_all(open.map(|(it, request)| async move {
                let raw = self.0.request_input(it.key.clone(), request).await.ok()?;
                Some((it.key.clone(), read(&it.what, &raw)?))
            }))
            .await;
            let mut given = Map::new();
            for answer in answers.into_iter().flatten() {
                match answer {
                    (key, Reply::Given(value)) => {
                        given.insert(key, value);
                    }
                    (key, Reply::Declined) => return Supply::Declined { key },
                }
            }
            Supply::Given(given)
        })
    }

    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
}
