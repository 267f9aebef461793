//! What a tool tells while it runs reaches whoever calls, bounded and without secrets.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use glee::app::{App, Call, Wiring};
use glee::exec::Stay;
use glee_core::elicit::Asked;
use glee_core::outcome::Outcome;
use glee_core::port::{Answer, Approver, Caller, Cancel, Later, Level, Note, Party, Supply};
use serde_json::{Map, json};

use crate::support::{Scene, wiring};

/// Hears, and puts a file where the tool waits for a sign.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<Note>>,
    sign: Option<PathBuf>,
}

impl Party for Listener {
    fn hear(&self, note: Note) {
        self.heard.lock().unwrap().push(note);
        if let Some(sign) = &self.sign {
            fs::write(sign, "").unwrap();
        }
    }

    fn supply<'a>(&'a self, _: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(async { Supply::Nobody })
    }

    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
}

fn manifest(kind: &str, exec: &str) -> String {
    format!(
        "name: tool
description: A tool
kind: {kind}
version: 1
inputs: {{schema: {{type: object}}}}
outputs: {{format: text}}
exec: {{{kind}: {{{exec}, timeout_ms: 20000}}}}
permissions: {{network: false, fs: {{read: [signs]}}, secrets: {{TOKEN: {{type: string}}}}}}
approval: {{required: false}}
"
    )
}

fn command(script: &str) -> Scene {
    let scene = Scene::new();
    let manifest = manifest("command", "entrypoint: .glee/tools/tool/run.sh");
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    scene.write(".glee/tools/tool/run.sh", &format!("#!/bin/sh\n{script}\n"));
    scene
}

fn python(module: &str) -> Scene {
    let scene = Scene::new();
    let exec = "module: main, function: run, cwd: .glee/tools/tool";
    scene.write(".glee/tools/tool/tool.yml", &manifest("python", exec));
    scene.write(".glee/tools/tool/main.py", module);
    scene
}

fn open(scene: &Scene, stay: Stay) -> App {
    let secrets = BTreeMap::from([("TOKEN".to_owned(), "secret-token-1".to_owned())]);
    let wiring = Wiring {
        stay,
        ..wiring(secrets, Answer::Approved)
    };
    App::open(scene.project(), wiring).unwrap()
}

async fn call(app: &App, party: Arc<Listener>) -> Outcome {
    app.call(Call {
        tool: "tool".into(),
        args: Map::new(),
        caller: Caller {
            name: "user".into(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party,
        approval: None,
    })
    .await
}

fn run(scene: &Scene, stay: Stay, times: usize) -> Vec<(Outcome, Vec<Note>)> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = open(scene, stay);
    let mut all = Vec::new();
    for _ in 0..times {
        let party = Arc::new(Listener::default());
        let outcome = runtime.block_on(call(&app, party.clone()));
        let heard = std::mem::take(&mut *party.heard.lock().unwrap());
        all.push((outcome, heard));
    }
    all
}

fn value(outcome: &Outcome) -> &serde_json::Value {
    match &outcome.result {
        Ok(output) => &output.value,
        Err(failure) => panic!("{failure:?}"),
    }
}

fn log(level: Level, text: &str) -> Note {
    Note::Log {
        level,
        text: text.into(),
    }
}

#[test]
fn a_command_tells() {
    let scene = command(
        r#"echo '{"progress": 1, "total": 2, "message": "half"}' >&"$GLEE_NOTES_FD"
echo '{"log": "nearly", "level": "notice"}' >&"$GLEE_NOTES_FD"
echo done"#,
    );
    let (outcome, heard) = run(&scene, Stay::ForOneCall, 1).remove(0);
    assert_eq!(*value(&outcome), json!("done\n"));
    let half = Note::Progress {
        done: 1.0,
        total: Some(2.0),
        message: Some("half".into()),
    };
    assert_eq!(heard, [half, log(Level::Notice, "nearly")]);
}

const MODULE: &str = r#"
import json, os

NOTES = int(os.environ["GLEE_NOTES_FD"])

def run():
    assert NOTES == int(os.environ["GLEE_NOTES_FD"])
    with open(NOTES, "w") as notes:
        print(json.dumps({"log": "hello"}), file=notes)
    return str(os.getppid())
"#;

#[test]
fn a_function_tells_alone_and_in_an_interpreter_that_stays() {
    let scene = python(MODULE);
    for stay in [Stay::ForOneCall, Stay::ForMany] {
        let ran = run(&scene, stay, 3);
        for (outcome, heard) in &ran {
            value(outcome);
            assert_eq!(*heard, [log(Level::Info, "hello")], "{stay:?}");
        }
        let parents: Vec<_> = ran.iter().map(|it| value(&it.0)).collect();
        if stay == Stay::ForMany {
            assert!(parents.iter().all(|it| *it == parents[0]), "none stayed");
        }
    }
}

#[test]
fn notes_come_while_the_tool_runs() {
    let scene = command(
        r#"echo '{"log": "ready"}' >&"$GLEE_NOTES_FD"
while [ ! -e signs/go ]; do sleep 0.01; done
echo went"#,
    );
    let signs = scene.root.join("signs");
    fs::create_dir(&signs).unwrap();
    let party = Arc::new(Listener {
        sign: Some(signs.join("go")),
        ..Listener::default()
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(call(&open(&scene, Stay::ForOneCall), party));
    assert_eq!(*value(&outcome), json!("went\n"));
}

#[test]
fn a_secret_is_never_told() {
    let scene = command(
        r#"echo "{\"log\": \"it is $TOKEN\"}" >&"$GLEE_NOTES_FD"
echo "{\"progress\": 1, \"message\": \"$(printf %s "$TOKEN" | base64)\"}" >&"$GLEE_NOTES_FD""#,
    );
    let (_, heard) = run(&scene, Stay::ForOneCall, 1).remove(0);
    assert_eq!(heard.len(), 2);
    let shown = format!("{heard:?}");
    assert!(shown.contains("[REDACTED:TOKEN]"), "{shown}");
    for form in ["secret-token-1", "c2VjcmV0"] {
        assert!(!shown.contains(form), "{shown}");
    }
}

#[test]
fn a_flood_changes_nothing_else() {
    let scene = command(
        r#"yes '{"log": "again"}' | head -n 20000 >&"$GLEE_NOTES_FD"
head -c 200000 /dev/zero >&"$GLEE_NOTES_FD"
echo done"#,
    );
    let (outcome, heard) = run(&scene, Stay::ForOneCall, 1).remove(0);
    assert_eq!(*value(&outcome), json!("done\n"));
    assert!(heard.len() < 2000, "{}", heard.len());
    let last = format!("{:?}", heard.last().unwrap());
    assert!(last.contains("1 could not be read"), "{last}");
}

#[test]
fn a_grandchild_that_keeps_the_channel_is_not_waited_for() {
    let scene = command("setsid sleep 600 >/dev/null 2>&1 </dev/null &\necho done");
    let (outcome, heard) = run(&scene, Stay::ForOneCall, 1).remove(0);
    assert_eq!(*value(&outcome), json!("done\n"));
    assert_eq!(heard, []);
}
