//! Running what was admitted: one `match`, one file per kind.

mod by_hand;
mod cage;
mod command;
mod denied;
mod egress;
pub mod http;
pub mod probe;
mod process;
mod python;

use glee_core::admit::Admitted;
use glee_core::model::Exec;
use glee_core::outcome::{Failure, Held};
use glee_core::port::{Executor, Later};
use glee_core::shape::Raw;
use serde_json::Value;

use http::{HttpExec, HttpPolicy};

pub use by_hand::{ByHand, Ran, Streams};
pub use cage::Cage;
pub use command::find_entrypoint;
pub use egress::Egress;
pub use python::{find_interpreter, search_path};

pub struct Executors {
    http: HttpExec,
    cage: Cage,
}

impl Executors {
    pub fn new(policy: HttpPolicy, cage: Cage) -> Executors {
        Executors {
            http: HttpExec::new(policy),
            cage,
        }
    }
}

impl Executor for Executors {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Held, Failure>> {
        Box::pin(async move {
            match &call.spec().exec {
                Exec::Http(_) => Ok(Held {
                    by: "host policy".to_owned(),
                    missing: Vec::new(),
                }),
                Exec::Command(_) | Exec::Python(_) => self.cage.hold(call).await,
            }
        })
    }

    fn run<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Raw, Failure>> {
        Box::pin(async move {
            match &call.spec().exec {
                Exec::Http(it) => self.http.run(it, call).await,
                Exec::Command(it) => command::run(it, call, &self.cage).await,
                Exec::Python(it) => python::run(it, call, &self.cage).await,
            }
        })
    }
}

/// What would be done, without doing it.
pub fn preview(call: &Admitted) -> Result<Value, Failure> {
    match &call.spec().exec {
        Exec::Http(it) => HttpExec::preview(it, call),
        Exec::Command(it) => command::preview(it, call),
        Exec::Python(it) => python::preview(it, call),
    }
}
