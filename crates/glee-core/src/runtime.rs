//! The straight line of one call, from a name and arguments to an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::admit::{self, Admitted, Gate, Invocation, admit};
use crate::catalog::Catalog;
use crate::event::{Event, Step, Told, What, Witness};
use crate::model::ToolSpec;
use crate::outcome::{Failure, FailureKind, Held, Meta, Outcome, Output};
use crate::policy::Decision;
use crate::port::{Clock, Consent, Executor, Matter, Observer, Ready, Using};
use crate::redact::Redactor;
use crate::secret::SecretValues;
use crate::shape::shape;
use crate::turn::Turns;

pub struct Runtime {
    pub catalog: Catalog,
    pub gate: Gate,
    pub turns: Turns,
    pub executor: Arc<dyn Executor>,
    pub observers: Vec<Arc<dyn Observer>>,
    pub clock: Arc<dyn Clock>,
}

impl Runtime {
    /// Runs one call. There is always an outcome: what goes wrong is part of it.
    pub async fn invoke(&self, call: Invocation) -> Outcome {
        self.answer(call, Admission::Call).await
    }

    /// Runs an example of a tool that nobody has approved, for the person who is about to decide; see
    /// [`admit::trial`]. It is recorded like any other call.
    pub async fn trial(&self, spec: Arc<ToolSpec>, call: Invocation) -> Outcome {
        self.answer(call, Admission::Trial(spec)).await
    }

    async fn answer(&self, call: Invocation, admission: Admission) -> Outcome {
        let began = self.clock.now();
        let mut meta = Meta::default();
        let result = AssertUnwindSafe(self.call(&call, admission, &mut meta))
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
    pub async fn turn_away(&self, call: Invocation, why: Failure) -> Outcome {
        let failure = self.refuse(&Record::of(&call, self.clock.now()), why).await;
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

    async fn call(
        &self,
        call: &Invocation,
        admission: Admission,
        meta: &mut Meta,
    ) -> Result<Output, Failure> {
        let mut record = Record::of(call, self.clock.now());
        let found = match &admission {
            Admission::Call => self.catalog.snapshot().find(&call.tool),
            Admission::Trial(spec) => Ok(spec.clone()),
        };
        let spec = match found {
            Ok(spec) => spec,
            Err(failure) => {
                // Whose secrets the arguments hold, only the name would have told.
                let redactor = Redactor::new(&self.all_secrets());
                record.redactor = Some(&redactor);
                return Err(self.refuse(&record, failure).await);
            }
        };
        meta.version = Some(spec.version.clone());
        meta.kind = Some(spec.exec.kind());
        record.document = Some(spec.document);
        // Also what is refused is recorded, and an argument may hold a secret.
        let redactor = Redactor::new(&self.gate.secrets_of(&spec));
        record.redactor = Some(&redactor);
        // Examples of a tool that a person looks at are no calls of it.
        let turns = match admission {
            Admission::Call => Some(&self.turns),
            Admission::Trial(_) => None,
        };
        let spent = turns.map(|it| it.check(&spec.name, spec.limits.calls, self.clock.elapsed()));
        if let Some(Err(failure)) = spent {
            return Err(self.refuse(&record, failure).await);
        }
        let mut hearing = Hearing {
            runtime: self,
            redactor: &redactor,
            record: &mut record,
        };
        let admitted = match admission {
            Admission::Call => admit(&self.gate, spec, call, &mut hearing).await,
            Admission::Trial(_) => admit::trial(&self.gate, &spec, call, &mut hearing).await,
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(failure) => return Err(self.refuse(&record, redactor.failure(failure)).await),
        };
        record.args = Told::from(redactor.map(admitted.args().clone())).into();
        let (name, calls) = (&admitted.spec().name, admitted.spec().limits.calls);
        let turn = turns.map(|it| it.take(name, calls, self.clock.elapsed()));
        let _turn = match turn.transpose() {
            Ok(turn) => turn,
            Err(failure) => return Err(self.refuse(&record, failure).await),
        };
        let Ready { held, run } = match self.executor.hold(&admitted).await {
            Ok(ready) => ready,
            Err(failure) => return Err(self.refuse(&record, redactor.failure(failure)).await),
        };
        meta.held = Some(held.clone());
        record.held = Some(held);
        let using = match self.use_consent(&admitted, call) {
            Ok(using) => using,
            Err(failure) => return Err(self.refuse(&record, redactor.failure(failure)).await),
        };
        let mut recording = Recording {
            runtime: self,
            event: self.event(&record, What::Started),
            using,
            began: self.clock.now(),
            over: false,
        };
        // A caller who is gone while the start is being recorded leaves no start without an end.
        if let Err(err) = self.report(&recording.event).await {
            // What cannot be recorded does not run.
            let failure = start_unrecorded(&err);
            recording.over = true;
            recording.set_free(Some(failure.kind));
            // The start may be written yet, by a disk that only hung. Then this comes after it, and nobody
            // waits for it.
            let _ = self.refuse(&record, failure.clone()).now_or_never();
            return Err(failure);
        }
        recording.began = self.clock.now();
        let result = run
            .await
            .and_then(|raw| shape(&admitted.spec().outputs, raw, &redactor));
        let result = match result {
            Ok(output) => {
                let output = with_remark(output, &admitted);
                let mut output = redacted(output, &redactor, admitted.spec());
                output.warnings.extend(redactor.warnings());
                Ok(output)
            }
            Err(failure) => Err(redactor.failure(failure)),
        };
        recording.finish(result.as_ref().err()).await?;
        result
    }

    /// The secrets of all tools there are.
    fn all_secrets(&self) -> SecretValues {
        let tools = self.catalog.snapshot();
        tools
            .tools()
            .flat_map(|it| self.gate.secrets_of(it))
            .collect()
    }

    /// A yes is good for one run: from here on it is used, whatever happens.
    fn use_consent(
        &self,
        admitted: &Admitted,
        call: &Invocation,
    ) -> Result<Option<Box<dyn Using>>, Failure> {
        if *admitted.consent() == Consent::NotNeeded {
            return Ok(None);
        }
        let matter = Matter {
            spec: admitted.spec(),
            args: admitted.args(),
            caller: &call.caller,
        };
        let approvals = &self.gate.approvals;
        approvals
            .start(admitted.consent(), &matter, call.id)
            .map(Some)
    }

    /// Tells the observers of something that is not a call: what people decide, say.
    pub fn tell(&self, event: &Event) -> Result<(), String> {
        self.observers
            .iter()
            .map(|it| it.observe(event))
            .fold(Ok(()), Result::and)
    }

    /// Records what somebody does with a tool outside of any call. What cannot be recorded is not to be
    /// done.
    pub fn note(
        &self,
        tool: &str,
        document: Option<[u8; 32]>,
        actor: &str,
        what: What,
    ) -> Result<(), Failure> {
        let event = Event {
            id: Uuid::now_v7(),
            at: self.clock.now(),
            tool: tool.to_owned(),
            document,
            actor: actor.to_owned(),
            args: Told::default(),
            held: None,
            trail: Vec::new(),
            what,
        };
        self.tell(&event).map_err(|err| {
            Failure::new(
                FailureKind::AuditUnavailable,
                format!("nothing was done, because it cannot be recorded: {err}"),
            )
            .hint("make what it names writable, or free some disk space")
        })
    }

    async fn refuse(&self, record: &Record<'_>, failure: Failure) -> Failure {
        let what = What::Refused {
            kind: failure.kind,
            message: failure.message.clone(),
            duration: self.since(record.began),
        };
        // A refusal that cannot be recorded is still a refusal.
        let _ = self.report(&self.event(record, what)).await;
        failure
    }

    async fn report(&self, event: &Event) -> Result<(), String> {
        for observer in &self.observers {
            observer.hear(event).await?;
        }
        Ok(())
    }

    fn event(&self, record: &Record<'_>, what: What) -> Event {
        Event {
            id: record.call.id,
            at: self.clock.now(),
            tool: record.call.tool.clone(),
            document: record.document,
            actor: record.call.caller.name.clone(),
            args: record.args(),
            held: record.held.clone(),
            trail: record.trail.clone(),
            what,
        }
    }

    fn since(&self, began: SystemTime) -> Duration {
        self.clock.now().duration_since(began).unwrap_or_default()
    }
}

/// What cannot be recorded does not run.
pub fn start_unrecorded(why: &str) -> Failure {
    Failure::new(
        FailureKind::AuditUnavailable,
        format!("the call was not run, because it cannot be recorded: {why}"),
    )
    .hint("make what it names writable, or free some disk space; `glee doctor` looks at it")
}

pub fn end_unrecorded(why: &str) -> Failure {
    Failure::new(
        FailureKind::AuditUnavailable,
        format!("the tool ran, but its end could not be recorded: {why}"),
    )
    .hint("look at what the tool did before running it again")
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

/// Who called must know when something else was run.
fn with_remark(mut output: Output, admitted: &Admitted) -> Output {
    if admitted.is_amended() {
        let args = Value::Object(admitted.args().clone());
        output
            .warnings
            .push(format!("a person changed the arguments to {args}"));
    }
    output
}

/// Takes down what is decided about a call, and tells of it what others should hear at once.
struct Hearing<'a, 'b> {
    runtime: &'a Runtime,
    redactor: &'a Redactor,
    record: &'a mut Record<'b>,
}

impl Witness for Hearing<'_, '_> {
    fn step(&mut self, step: Step) {
        // A reason may tell of an argument, and an argument may hold a secret.
        let redacted = |reason: String| self.redactor.text(reason);
        let decision = match step.decision {
            Decision::Allow => Decision::Allow,
            Decision::Ask { reason } => Decision::Ask {
                reason: redacted(reason),
            },
            Decision::Deny { reason } => Decision::Deny {
                reason: redacted(reason),
            },
        };
        self.record.trail.push(Step { decision, ..step });
    }

    fn tell(&mut self, actor: &str, args: &Map<String, Value>, what: What) {
        let what = match what {
            What::Asked { approval, reason } => What::Asked {
                approval,
                reason: self.redactor.text(reason),
            },
            What::Answered {
                approval,
                answer,
                reason,
            } => What::Answered {
                approval,
                answer,
                reason: self.redactor.text(reason),
            },
            other => other,
        };
        let event = Event {
            actor: actor.to_owned(),
            args: self.redactor.map(args.clone()).into(),
            ..self.runtime.event(self.record, what)
        };
        // What the record cannot take stops the call when it would start.
        let _ = self.runtime.tell(&event);
    }
}

/// How a call comes to be made.
enum Admission {
    Call,
    /// Of this tool, which nobody has approved.
    Trial(Arc<ToolSpec>),
}

/// What is known of a call so far, for those who record it.
struct Record<'a> {
    call: &'a Invocation,
    began: SystemTime,
    document: Option<[u8; 32]>,
    /// Takes the secrets out of the arguments; until it is known, nothing is told of these.
    redactor: Option<&'a Redactor>,
    /// Those the tool runs with; until they are known, those that it was called with.
    args: OnceLock<Told>,
    held: Option<Held>,
    trail: Vec<Step>,
}

impl<'a> Record<'a> {
    fn of(call: &'a Invocation, began: SystemTime) -> Record<'a> {
        Record {
            call,
            began,
            document: None,
            redactor: None,
            args: OnceLock::new(),
            held: None,
            trail: Vec::new(),
        }
    }

    fn args(&self) -> Told {
        let called_with = || match self.redactor {
            Some(redactor) => redactor.map(self.call.args.clone()).into(),
            None => Told::default(),
        };
        self.args.get_or_init(called_with).clone()
    }
}

/// Sees to it that a call that was started is also recorded as over: also when the caller drops it,
/// also when the executor panics.
struct Recording<'a> {
    runtime: &'a Runtime,
    /// That it started, and then that it is over.
    event: Event,
    using: Option<Box<dyn Using>>,
    began: SystemTime,
    over: bool,
}

impl Recording<'_> {
    async fn finish(&mut self, failure: Option<&Failure>) -> Result<(), Failure> {
        self.end(failure);
        self.set_free(failure.map(|it| it.kind));
        let reported = self.runtime.report(&self.event).await;
        reported.map_err(|err| end_unrecorded(&err))
    }

    /// The yes that the call was made by is used up.
    fn set_free(&mut self, failure: Option<FailureKind>) {
        if let Some(using) = self.using.take() {
            using.over(failure);
        }
    }

    fn end(&mut self, failure: Option<&Failure>) {
        self.over = true;
        self.event.at = self.runtime.clock.now();
        self.event.what = What::Finished {
            failure: failure.map(|it| it.kind),
            message: failure.map_or(String::new(), |it| it.message.clone()),
            duration: self.runtime.since(self.began),
        };
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let failure = match std::thread::panicking() {
            true => Failure::new(FailureKind::Internal, "glee itself failed"),
            false => Failure::new(FailureKind::Cancelled, "the caller is gone"),
        };
        self.set_free(Some(failure.kind));
        self.end(Some(&failure));
        for observer in &self.runtime.observers {
            let _ = observer.observe(&self.event);
        }
    }
}
