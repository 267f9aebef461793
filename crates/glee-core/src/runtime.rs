//! The straight line of one call, from a name and arguments to an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Map, Value};

use crate::admit::{self, Admitted, Gate, Invocation, admit};
use crate::catalog::Catalog;
use crate::event::{Event, What};
use crate::model::ToolSpec;
use crate::outcome::{Failure, FailureKind, Held, Meta, Outcome, Output};
use crate::port::{Clock, Executor, Observer};
use crate::redact::Redactor;
use crate::shape::shape;

pub struct Runtime {
    pub catalog: Catalog,
    pub gate: Gate,
    pub executor: Arc<dyn Executor>,
    pub observers: Vec<Arc<dyn Observer>>,
    pub clock: Arc<dyn Clock>,
}

impl Runtime {
    /// Runs one call. There is always an outcome: what goes wrong is part of it.
    pub async fn invoke(&self, call: Invocation) -> Outcome {
        let began = self.clock.now();
        let mut meta = Meta::default();
        let result = AssertUnwindSafe(self.call(&call, &mut meta))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                Err(Failure::new(
                    FailureKind::Internal,
                    "glee itself failed; this is a bug",
                ))
            });
        meta.duration = self.since(began);
        Outcome {
            id: call.id,
            tool: call.tool,
            result,
            meta,
        }
    }

    /// Answers a call that is not even looked at. It is recorded like any other refusal.
    pub fn turn_away(&self, call: Invocation, why: Failure) -> Outcome {
        let failure = self.refuse(&call, Map::new(), why);
        Outcome {
            id: call.id,
            tool: call.tool,
            result: Err(failure),
            meta: Meta::default(),
        }
    }

    /// The call as it would be made, for those who only want to look: nothing is asked, nothing is
    /// run, and every secret is a mask.
    pub fn preview(&self, call: &Invocation) -> Result<Admitted, Failure> {
        let spec = self.catalog.snapshot().find(&call.tool)?;
        admit::preview(&self.gate, spec, call)
    }

    async fn call(&self, call: &Invocation, meta: &mut Meta) -> Result<Output, Failure> {
        let spec = match self.catalog.snapshot().find(&call.tool) {
            Ok(spec) => spec,
            Err(failure) => return Err(self.refuse(call, call.args.clone(), failure)),
        };
        meta.version = Some(spec.version.clone());
        meta.kind = Some(spec.exec.kind());
        // Also what is refused is recorded, and an argument may hold a secret.
        let redactor = Redactor::new(&self.gate.secrets_of(&spec));
        let refuse = |args: &Map<String, Value>, failure| {
            self.refuse(call, redactor.map(args.clone()), redactor.failure(failure))
        };
        let admitted = match admit(&self.gate, spec, call).await {
            Ok(admitted) => admitted,
            Err(failure) => return Err(refuse(&call.args, failure)),
        };
        let held = match self.executor.hold(&admitted).await {
            Ok(held) => held,
            Err(failure) => return Err(refuse(admitted.args(), failure)),
        };
        meta.held = Some(held.clone());
        let args = redactor.map(admitted.args().clone());
        self.journal(call, &args, &held)?;
        let mut recording = Recording {
            runtime: self,
            call,
            args,
            held,
            over: false,
        };
        let began = self.clock.now();
        let raw = self.executor.run(&admitted).await;
        let result = raw.and_then(|raw| shape(&admitted.spec().outputs, raw));
        let result = match result {
            Ok(output) => Ok(redacted(output, &redactor, admitted.spec())),
            Err(failure) => Err(redactor.failure(failure)),
        };
        recording.finish(result.as_ref().err().map(|it| it.kind), self.since(began))?;
        result
    }

    fn refuse(&self, call: &Invocation, args: Map<String, Value>, failure: Failure) -> Failure {
        // A refusal that cannot be recorded is still a refusal.
        let _ = self.report(call, args, None, What::Refused { kind: failure.kind });
        failure
    }

    /// What cannot be recorded does not run.
    fn journal(
        &self,
        call: &Invocation,
        args: &Map<String, Value>,
        held: &Held,
    ) -> Result<(), Failure> {
        self.report(call, args.clone(), Some(held.clone()), What::Started)
            .map_err(|err| {
                Failure::new(
                    FailureKind::Internal,
                    format!("the call was not run, because it cannot be recorded: {err}"),
                )
                .hint("make `.glee/audit` writable and free some disk space")
            })
    }

    fn report(
        &self,
        call: &Invocation,
        args: Map<String, Value>,
        held: Option<Held>,
        what: What,
    ) -> Result<(), String> {
        let event = Event {
            id: call.id,
            at: self.clock.now(),
            tool: call.tool.clone(),
            caller: call.caller.name.clone(),
            args,
            held,
            what,
        };
        self.observers
            .iter()
            .map(|it| it.observe(&event))
            .fold(Ok(()), Result::and)
    }

    fn since(&self, began: std::time::SystemTime) -> Duration {
        self.clock.now().duration_since(began).unwrap_or_default()
    }
}

/// The output without secrets. A number that was one is a text now, and may break the schema that the
/// output held before.
fn redacted(output: Output, redactor: &Redactor, spec: &ToolSpec) -> Output {
    let Some(schema) = spec.outputs.schema.as_ref().filter(|_| !redactor.is_idle()) else {
        return redactor.output(output);
    };
    let before = output.value.clone();
    let mut output = redactor.output(output);
    if output.value != before && !schema.violations(&output.value).is_empty() {
        output
            .warnings
            .push("without its secrets the output breaks its schema".to_owned());
    }
    output
}

/// Sees to it that a call that was started is also recorded as over: also when the caller drops it,
/// also when the executor panics.
struct Recording<'a> {
    runtime: &'a Runtime,
    call: &'a Invocation,
    args: Map<String, Value>,
    held: Held,
    over: bool,
}

impl Recording<'_> {
    fn finish(&mut self, failure: Option<FailureKind>, duration: Duration) -> Result<(), Failure> {
        self.over = true;
        let args = std::mem::take(&mut self.args);
        self.runtime
            .report(
                self.call,
                args,
                Some(self.held.clone()),
                What::Finished { failure, duration },
            )
            .map_err(|err| {
                Failure::new(
                    FailureKind::Internal,
                    format!("the tool ran, but its end could not be recorded: {err}"),
                )
                .hint("look at what the tool did before running it again")
            })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.over {
            let kind = if std::thread::panicking() {
                FailureKind::Internal
            } else {
                FailureKind::Cancelled
            };
            let _ = self.finish(Some(kind), Duration::ZERO);
        }
    }
}
