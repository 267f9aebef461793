//! A project with one tool that asks, people who answer in different ways, and a clock that can be set.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use glee::app::{App, Call, Wiring};
use glee::approve::absent::Absent;
use glee::approve::ledger::Decision;
use glee::store::record::{Said, State};
use glee_core::outcome::{Failure, Outcome};
use glee_core::port::{
    Answer, Approver, Boot, Caller, Cancel, Clock, Later, Question, Secrets, Waits,
};
use glee_core::secret::Secret;
use serde_json::Value;
use std::sync::Mutex;
use uuid::Uuid;

use crate::support::{GLEE, Scene};

pub(super) const TOOL: &str = "\
name: stamp
description: Leave a line behind
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false, required: [name], properties: {name: {type: string, description: The line}, times: {type: integer, default: 1, description: How often}}}}
outputs: {format: text}
exec: {command: {entrypoint: ./stamp.sh, args: ['${name}']}}
permissions: {network: false, fs: {write: [out]}, secrets: {KEY: {type: string, required: false}}}
approval: {required: true, reason: it writes}
";

const SCRIPT: &str = "#!/bin/sh\necho \"$1\" >> out/ran\n";

pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) clock: Arc<Hands>,
    runtime: tokio::runtime::Runtime,
}

/// When somebody changes the tool's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// While a person is asked.
    Asked,
    /// After they said yes: secrets are looked up last.
    Approved,
}

impl Stage {
    pub(super) fn new() -> Stage {
        let scene = Scene::new();
        scene.write(".glee/tools/stamp/tool.yml", TOOL);
        scene.write("stamp.sh", SCRIPT);
        scene.write("out/.keep", "");
        Stage {
            scene,
            clock: Arc::default(),
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    pub(super) fn script(&self) -> PathBuf {
        self.scene.root.join("stamp.sh")
    }

    fn open(&self, approver: Arc<dyn Approver>, secrets: Arc<dyn Secrets>) -> App {
        let wiring = Wiring {
            approver,
            secrets,
            launcher: GLEE.into(),
            allowed_permissions: None,
            clock: self.clock.clone(),
            ..Wiring::with(Absent)
        };
        App::open(self.scene.project(), wiring).unwrap()
    }

    /// Where nobody is there to answer.
    pub(super) fn app(&self) -> App {
        self.open(Arc::new(Absent), Arc::new(NoSecrets))
    }

    /// Where somebody always says the same.
    pub(super) fn answering(&self, answer: Answer) -> (App, Arc<Counting>) {
        let person = Arc::new(Counting {
            answer,
            asked: AtomicUsize::new(0),
        });
        (self.open(person.clone(), Arc::new(NoSecrets)), person)
    }

    /// Where somebody thinks about it for ever.
    pub(super) fn silent(&self) -> App {
        self.open(Arc::new(Silent), Arc::new(NoSecrets))
    }

    /// Where a person says yes, and somebody else changes the script.
    pub(super) fn changing(&self, when: When) -> App {
        let change = Change {
            script: self.script(),
            when,
        };
        self.open(Arc::new(change.clone()), Arc::new(change))
    }

    pub(super) fn call(&self, app: &App, args: Value, approval: Option<Uuid>) -> Outcome {
        self.call_as(app, "agent", "stamp", args, approval)
    }

    pub(super) fn call_as(
        &self,
        app: &App,
        caller: &str,
        tool: &str,
        args: Value,
        approval: Option<Uuid>,
    ) -> Outcome {
        let call = made(caller, tool, args, approval);
        self.runtime.block_on(app.call(call))
    }

    /// A call whose caller gives up when the question is on record.
    pub(super) fn cancelled(&self, app: &App, args: Value) -> Outcome {
        let (give_up, given_up) = tokio::sync::oneshot::channel::<()>();
        let cancel = Cancel::when(async {
            let _ = given_up.await;
        });
        let call = Call {
            cancel,
            ..made("agent", "stamp", args, None)
        };
        self.runtime.block_on(async {
            let asked = async {
                while app.approvals().list().unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                give_up.send(()).unwrap();
            };
            tokio::join!(app.call(call), asked).0
        })
    }

    /// The question about a call, which waits for an answer.
    pub(super) fn asked(&self, app: &App, name: &str) -> Uuid {
        self.asked_by(app, "agent", name)
    }

    pub(super) fn asked_by_user(&self, app: &App, name: &str) -> Uuid {
        self.asked_by(app, "user", name)
    }

    fn asked_by(&self, app: &App, caller: &str, name: &str) -> Uuid {
        let args = serde_json::json!({"name": name});
        let outcome = self.call_as(app, caller, "stamp", args, None);
        id_of(&refused(&outcome, "APPROVAL_REQUIRED"))
    }

    pub(super) fn approved(&self, app: &App, name: &str) -> Uuid {
        self.approved_for(app, "agent", name)
    }

    pub(super) fn approved_for(&self, app: &App, caller: &str, name: &str) -> Uuid {
        let id = self.asked_by(app, caller, name);
        app.decide(id, Decision::approve(Said::Once), "bob")
            .unwrap();
        id
    }

    pub(super) fn state(&self, app: &App, id: Uuid) -> State {
        app.approvals().get(id).unwrap().unwrap().state
    }

    /// What the tool was run with, in order.
    pub(super) fn ran(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.scene.root.join("out/ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn made(caller: &str, tool: &str, args: Value, approval: Option<Uuid>) -> Call {
    Call {
        tool: tool.to_owned(),
        args: args.as_object().unwrap().clone(),
        caller: Caller {
            name: caller.to_owned(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval,
    }
}

pub(super) fn code(outcome: &Outcome) -> &'static str {
    match &outcome.result {
        Ok(_) => "ok",
        Err(failure) => failure.kind.code(),
    }
}

pub(super) fn refused(outcome: &Outcome, expected: &str) -> Failure {
    match &outcome.result {
        Err(failure) if failure.kind.code() == expected => failure.clone(),
        other => panic!("{expected} was expected: {other:?}"),
    }
}

pub(super) fn id_of(failure: &Failure) -> Uuid {
    let id = failure.details["approval_id"].as_str().unwrap();
    assert!(failure.details["expires_at"].is_string(), "{failure:?}");
    id.parse().unwrap()
}

/// A clock that is now, and can be set. The other one, which nobody can set, goes on.
#[derive(Default)]
pub(super) struct Hands(Mutex<(Duration, Duration)>);

impl Hands {
    pub(super) fn jump(&self, by: Duration) {
        self.0.lock().unwrap().0 += by;
    }

    pub(super) fn jump_back(&self, by: Duration) {
        self.0.lock().unwrap().1 += by;
    }
}

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        let (forwards, back) = *self.0.lock().unwrap();
        SystemTime::now() + forwards - back
    }

    fn boot(&self) -> Option<Boot> {
        Some(Boot {
            id: "this one".to_owned(),
            up: Duration::from_secs(3600),
        })
    }
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn get(&self, _: &str) -> Option<Secret> {
        None
    }
}

pub(super) struct Counting {
    answer: Answer,
    asked: AtomicUsize,
}

impl Counting {
    pub(super) fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Approver for Counting {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { self.answer.clone() })
    }
}

struct Silent;

impl Approver for Silent {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

#[derive(Clone)]
struct Change {
    script: PathBuf,
    when: When,
}

impl Change {
    fn happens(&self, when: When) {
        if self.when == when {
            std::fs::write(&self.script, SCRIPT.replace("ran", "evil")).unwrap();
        }
    }
}

impl Approver for Change {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        self.happens(When::Asked);
        Box::pin(async { Answer::Approved })
    }
}

impl Secrets for Change {
    fn get(&self, _: &str) -> Option<Secret> {
        // The first look is for what must not be shown, before anybody is asked.
        let asked = self.script.with_file_name(".glee").join("approvals");
        let answered = std::fs::read_dir(asked)
            .into_iter()
            .flatten()
            .flatten()
            .any(|it| {
                std::fs::read_to_string(it.path()).is_ok_and(|it| it.contains("\"approved\""))
            });
        if answered {
            self.happens(When::Approved);
        }
        None
    }
}
