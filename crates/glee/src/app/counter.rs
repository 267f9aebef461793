//! Where callers wait for their answers, so that somebody else can answer when a call cannot: when the disk that
//! takes its record hangs. So a call runs apart from whoever waits for it, or has another way to its caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glee_core::outcome::{Failure, FailureKind, Meta, Outcome};
use glee_core::runtime::{end_unrecorded, start_unrecorded};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::observe::audit::{Stage, Stuck};

#[derive(Clone, Default)]
pub(super) struct Counter {
    waiting: Arc<Mutex<HashMap<Uuid, Waits>>>,
}

type Answer = Result<Outcome, Failure>;

/// Tells a caller what has become of a call that hangs.
pub type Tell = Box<dyn FnOnce(Outcome) + Send>;

/// Who waits for a call.
enum Waits {
    /// Another task.
    Apart(oneshot::Sender<Answer>),
    /// The task that runs it, and would hang with it.
    There { tool: String, tell: Tell },
}

impl Counter {
    /// Runs a call, which ends with whoever waits for it.
    pub(super) async fn wait(
        &self,
        (id, tool): (Uuid, String),
        call: impl Future<Output = Outcome> + Send + 'static,
    ) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let waiting = self.begin(id, Waits::Apart(answer));
        let running = tokio::spawn(async move {
            let outcome = call.await;
            waiting.answer(Ok(outcome));
        });
        let _running = Running(running.abort_handle());
        let answer = answered.await.unwrap_or_else(|_| Err(gone()));
        answer.unwrap_or_else(|failure| failed(id, tool, failure))
    }

    /// Runs a call in the task that waits for it. `None` when its caller has been told meanwhile.
    pub(super) async fn stay(
        &self,
        (id, tool): (Uuid, String),
        call: impl Future<Output = Outcome>,
        tell: Tell,
    ) -> Option<Outcome> {
        let waiting = self.begin(id, Waits::There { tool, tell });
        let outcome = call.await;
        waiting.leave().then_some(outcome)
    }

    fn begin(&self, id: Uuid, waits: Waits) -> Waiting {
        self.lock().insert(id, waits);
        Waiting {
            counter: self.clone(),
            id,
            is_left: false,
        }
    }

    /// In the place of a call that hangs.
    pub(super) fn answer_for(&self, stuck: Stuck, why: &str) {
        let failure = match stuck.at {
            Stage::Start => start_unrecorded(why),
            Stage::End => end_unrecorded(why),
            Stage::Aside => Failure::new(
                FailureKind::AuditUnavailable,
                format!("the call was refused, which cannot be recorded: {why}"),
            ),
        };
        self.answer(stuck.id, Err(failure));
    }

    fn answer(&self, id: Uuid, answer: Answer) {
        let waits = self.lock().remove(&id);
        match (waits, answer) {
            (Some(Waits::Apart(waits)), answer) => {
                // Nobody may be waiting any more.
                let _ = waits.send(answer);
            }
            (Some(Waits::There { tool, tell }), Err(failure)) => tell(failed(id, tool, failure)),
            // It answers for itself, or was answered for.
            (Some(Waits::There { .. }), Ok(_)) | (None, _) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Waits>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place at the counter, which is given up also when the call is dropped.
struct Waiting {
    counter: Counter,
    id: Uuid,
    is_left: bool,
}

impl Waiting {
    fn answer(&self, answer: Answer) {
        self.counter.answer(self.id, answer);
    }

    /// Whether nobody has answered for it.
    fn leave(mut self) -> bool {
        self.is_left = true;
        self.counter.lock().remove(&self.id).is_some()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        self.counter.lock().remove(&self.id);
    }
}

/// Ends a call that nobody waits for any more.
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn failed(id: Uuid, tool: String, failure: Failure) -> Outcome {
    Outcome {
        id,
        tool,
        result: Err(failure),
        meta: Meta::default(),
    }
}

fn gone() -> Failure {
    Failure::new(FailureKind::Cancelled, "glee ends")
}
