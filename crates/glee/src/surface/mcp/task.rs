//! Calls that go on while their caller is away and comes back for the answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use glee_core::elicit::Asked;
use glee_core::model::ToolSpec;
use glee_core::outcome::FailureKind;
use glee_core::port::{Answer, Approver, Caller, Cancel, Later, Note, Party, Question, Supply};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, Task};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Map;

use super::call::Chosen;
use super::line::{Reply, can, has_forms, read, request};
use super::{Server, approval, protocol, result};

/// Tasks of one principal that run at once.
const MOST_RUNNING: usize = 64;
/// How long an answer can be fetched, in milliseconds: an hour, as long as a tool may run.
const KEPT_MS: u64 = 3_600_000;
/// After this a task has come to its end and its answer is gone.
const FORGOTTEN: Duration = Duration::from_millis(2 * KEPT_MS);
/// Tasks of one principal that are remembered.
const MOST_KEPT: usize = 1000;

/// Where the tasks of each principal are. Nobody sees another's.
#[derive(Default)]
pub(super) struct Desks(Mutex<HashMap<String, Desk>>);

#[derive(Default)]
struct Desk {
    manager: TaskManager,
    /// When the tasks were begun whose answers may still be there.
    begun: VecDeque<Instant>,
}

impl Desks {
    pub(super) fn of(&self, caller: &Caller) -> TaskManager {
        self.lock()
            .entry(caller.name.clone())
            .or_default()
            .manager
            .clone()
    }

    /// Whether one more may begin.
    fn take_note(&self, caller: &Caller) -> bool {
        let mut desks = self.lock();
        let begun = &mut desks.entry(caller.name.clone()).or_default().begun;
        while begun.front().is_some_and(|it| it.elapsed() > FORGOTTEN) {
            begun.pop_front();
        }
        let is_welcome = begun.len() < MOST_KEPT;
        if is_welcome {
            begun.push_back(Instant::now());
        }
        is_welcome
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Desk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    pub(super) fn spawn(
        &self,
        chosen: Chosen,
        caller: Caller,
        spec: Option<Arc<ToolSpec>>,
        capabilities: ClientCapabilities,
        is_trusted: bool,
    ) -> Result<Task, ErrorData> {
        let desk = self.shared.desks.of(&caller);
        if desk.running_task_count() >= MOST_RUNNING || !self.shared.desks.take_note(&caller) {
            let why = "too many tasks are running, or their answers waiting";
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
                let party = Arc::new(Away {
                    desk: context,
                    capabilities,
                    is_trusted,
                });
                let call = chosen.call(caller.clone(), cancel, party);
                let outcome = server.run(call).await;
                match &outcome.result {
                    Err(failure) if failure.kind == FailureKind::Cancelled => {
                        Err(TaskExit::Cancelled)
                    }
                    // What never ran has no result, not even a bad one.
                    Err(failure) if is_refusal(failure.kind) => {
                        Err(TaskExit::Error(protocol(failure.clone())))
                    }
                    _ => Ok(result::render(
                        outcome,
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
        | FailureKind::LockTimeout
        | FailureKind::StorageFull
        | FailureKind::AuditUnavailable
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
struct Away {
    desk: TaskContext,
    /// What the caller can be asked for; it would leave other questions lying there for ever.
    capabilities: ClientCapabilities,
    /// Whether it may ask its own user for a yes.
    is_trusted: bool,
}

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
                self.desk.set_status_message(format!("{done}{of}{message}"));
            }
            Note::Log { text, .. } => self.desk.set_status_message(text),
        }
    }

    fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async move {
            let asked = asked.iter().filter(|it| can(&self.capabilities, &it.what));
            let open = asked.filter_map(|it| Some((it, request(&it.what)?)));
            let answers = join_all(open.map(|(it, request)| async move {
                let raw = self
                    .desk
                    .request_input(it.key.clone(), request)
                    .await
                    .ok()?;
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
        (self.is_trusted && has_forms(&self.capabilities)).then_some(self)
    }
}

impl Approver for Away {
    fn name(&self) -> &str {
        approval::BY
    }

    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        Box::pin(async move {
            let asked = request(&approval::form(question));
            let answer = match asked {
                Some(asked) => self.desk.request_input(approval::KEY, asked).await.ok(),
                None => None,
            };
            approval::read(answer.as_ref())
        })
    }
}
