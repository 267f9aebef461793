//! Running what was admitted: one `match`, one file per kind.

mod aloud;
mod by_hand;
mod cage;
mod command;
mod denied;
mod egress;
mod entrypoint;
mod guessed;
pub mod http;
mod notes;
mod place;
pub mod probe;
mod process;
mod program;
mod python;
mod refusals;
mod repositories;
mod streams;
mod temporary;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use glee_core::admit::Admitted;
use glee_core::model::{Exec, ToolSpec};
use glee_core::outcome::{Failure, FailureKind, Held};
use glee_core::permission::absolute;
use glee_core::port::{Executor, Later, Ready};
use glee_core::shape::Raw;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use http::HttpExec;
use place::Place;
use python::Warm;

pub use by_hand::{ByHand, Ran, Streams};
pub use cage::Cage;
pub(crate) use cage::real;
pub use denied::Denied;
pub(crate) use denied::add as add_denied;
pub use egress::Egress;
pub use entrypoint::{Entrypoint, find_entrypoint};
pub(crate) use program::{Cell, Ended, Program};
pub use python::{find_interpreter, search_path};

pub struct Executors {
    http: Arc<HttpExec>,
    cage: Cage,
    warm: Option<Arc<Warm>>,
    /// Whoever only waits, for a person for instance, has none.
    turns: Semaphore,
}

/// Tools that run at once; more wait for their turn.
const MOST_RUNNING: usize = 256;

impl Executors {
    pub fn new(http: Arc<HttpExec>, cage: Cage, stay: Stay) -> Executors {
        Executors {
            http,
            cage,
            warm: match stay {
                Stay::Briefly | Stay::ForOneCall => None,
                Stay::ForMany => Some(Arc::default()),
            },
            turns: Semaphore::new(MOST_RUNNING),
        }
    }
}

/// How long the program stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// To look at something; a call may come or not.
    Briefly,
    /// For a call that comes at once, so what can be begun before it is known is begun.
    ForOneCall,
    /// Interpreters are kept ready between the calls.
    ForMany,
}

impl Executor for Executors {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>> {
        Box::pin(async move {
            Ok(match &call.spec().exec {
                Exec::Http(it) => Ready {
                    held: Held {
                        by: "host policy".to_owned(),
                        missing: Vec::new(),
                    },
                    run: Box::pin(self.in_turn(call, self.http.run(it, call))),
                },
                Exec::Command(it) => {
                    let (held, place) = Place::make(call, &self.cage).await?;
                    let run = command::run(it, call, place, &self.cage);
                    Ready {
                        held,
                        run: Box::pin(self.in_turn(call, run)),
                    }
                }
                Exec::Native(it) => {
                    let Ready { held, run } = it.function.hold(call).await?;
                    Ready {
                        held,
                        run: Box::pin(self.in_turn(call, run)),
                    }
                }
                Exec::Python(it) => {
                    let (held, place) = Place::make(call, &self.cage).await?;
                    let run = python::run(it, call, place, &self.cage, self.warm.as_ref());
                    Ready {
                        held,
                        run: Box::pin(self.in_turn(call, run)),
                    }
                }
            })
        })
    }
}

impl Executors {
    async fn in_turn(
        &self,
        call: &Admitted,
        run: impl Future<Output = Result<Raw, Failure>>,
    ) -> Result<Raw, Failure> {
        // Mostly it comes at once.
        let _turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => self.turn(call).await?,
        };
        run.await
    }

    async fn turn(&self, call: &Admitted) -> Result<SemaphorePermit<'_>, Failure> {
        let turn = tokio::select! {
            turn = self.turns.acquire() => turn,
            () = tokio::time::sleep(call.timeout()) => {
                let why = "too many calls are under way already, and none ended in time";
                return Err(Failure::new(FailureKind::RateLimited, why).retryable());
            }
            () = call.cancel().cancelled() => {
                let why = format!("`{}` was cancelled before its turn came", call.spec().name);
                return Err(Failure::new(FailureKind::Cancelled, why));
            }
        };
        turn.map_err(|_| Failure::new(FailureKind::Internal, "no turn is given any more"))
    }
}

/// What a tool runs of its own: the file its entrypoint names, or what its module is read from and
/// the python of its environment. A program without a path is the system's, and another one on every
/// machine.
pub fn entries(spec: &ToolSpec, root: &Path) -> Vec<PathBuf> {
    match &spec.exec {
        Exec::Http(_) | Exec::Native(_) => Vec::new(),
        Exec::Command(it) if it.entrypoint.contains('/') => vec![absolute(root, &it.entrypoint)],
        Exec::Command(_) => Vec::new(),
        Exec::Python(it) => {
            let environment = it.venv.iter().flat_map(|it| python::environment(root, it));
            let module = python::module_files(root, it);
            module.into_iter().chain(environment).collect()
        }
    }
}

/// What would be done, without doing it.
pub fn preview(call: &Admitted) -> Result<Value, Failure> {
    match &call.spec().exec {
        Exec::Http(it) => HttpExec::preview(it, call),
        Exec::Command(it) => command::preview(it, call),
        Exec::Python(it) => python::preview(it, call),
        Exec::Native(_) => Ok(json!({"function": call.spec().name, "args": call.args()})),
    }
}
