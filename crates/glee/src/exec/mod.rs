//! Running what was admitted: one `match`, one file per kind.

mod command;
pub mod http;
mod process;
mod python;

use glee_core::admit::Admitted;
use glee_core::model::Exec;
use glee_core::outcome::Failure;
use glee_core::port::{Executor, Later};
use glee_core::shape::Raw;
use glee_sandbox::Sandbox;
use serde_json::Value;

use http::{HttpExec, HttpPolicy};

pub use command::find_entrypoint;
pub use python::{find_interpreter, search_path};

pub struct Executors {
    http: HttpExec,
    sandbox: Sandbox,
}

impl Executors {
    pub fn new(policy: HttpPolicy, sandbox: Sandbox) -> Executors {
        Executors {
            http: HttpExec::new(policy),
            sandbox,
        }
    }
}

impl Executor for Executors {
    fn run<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Raw, Failure>> {
        Box::pin(async move {
            match &call.spec().exec {
                Exec::Http(it) => self.http.run(it, call).await,
                Exec::Command(it) => command::run(it, call, &self.sandbox).await,
                Exec::Python(it) => python::run(it, call, &self.sandbox).await,
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
