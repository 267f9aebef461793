//! Every decision has a record, and people can read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use glee::app::{App, Call};
use glee_core::outcome::{FailureKind, Outcome};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::{Map, Value, json};

use crate::support::{GLEE, Scene, json as output_json, stderr, stdout, wiring};

use super::{ran, records, scene};

/// One tool of each fate, and a call of each.
const FATES: &[(&str, FailureKind)] = &[
    ("denied_by_rule", FailureKind::RuleDenied),
    ("blocked_host", FailureKind::HostNotAllowed),
    ("nobody_there", FailureKind::ApprovalRequired),
    ("slow", FailureKind::Timeout),
    ("taken_back", FailureKind::Cancelled),
    ("fails", FailureKind::ExecutionError),
    ("wants_a_secret", FailureKind::SecretNotFound),
    ("absent", FailureKind::NotFound),
];

fn fate(name: &str) -> String {
    let head = format!(
        "name: {name}\ndescription: d\nversion: 1\ninputs: {{schema: {{type: object}}}}\noutputs: {{format: text}}\n"
    );
    let command =
        |entry: &str| format!("kind: command\nexec: {{command: {{entrypoint: {entry}}}}}\n");
    let open = "approval: {required: false}\n";
    match name {
        "blocked_host" => format!(
            "{head}kind: http\nexec: {{http: {{method: GET, url: 'https://example.com/'}}}}\npermissions: {{network: {{hosts: [example.com]}}}}\n{open}"
        ),
        "nobody_there" => format!(
            "{head}{}permissions: {{network: false}}\napproval: {{required: true, reason: because}}\n",
            command("'true'")
        ),
        "slow" | "taken_back" => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("sleep, args: ['30']")
        ),
        "fails" => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("'false'")
        ),
        "wants_a_secret" => format!(
            "{head}{}permissions: {{network: false, secrets: {{NO_SUCH_KEY: {{type: string}}}}}}\n{open}",
            command("'true'")
        ),
        _ => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("'true'")
        ),
    }
}

fn call(app: &App, tool: &str, cancel: Cancel) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(app.call(Call {
        tool: tool.to_owned(),
        args: Map::from_iter([("note".to_owned(), json!(1))]),
        caller: Caller {
            name: "somebody".into(),
        },
        timeout: (tool == "slow").then(|| Duration::from_millis(50)),
        cancel,
        party: Arc::new(Waits),
        approval: None,
    }))
}

#[test]
fn ad_08_every_decision_has_a_record() {
    let scene = Scene::new();
    for (name, ..) in FATES.iter().filter(|it| it.0 != "absent") {
        scene.write(&format!(".glee/tools/{name}/tool.yml"), &fate(name));
    }
    scene.write(".glee/tools/fine/tool.yml", &fate("fine"));
    scene.write(
        ".glee/config.yml",
        "rules: [{name: never, tools: [denied_by_rule], decision: deny, reason: because}]\nhttp: {allowed_hosts: [example.org]}\n",
    );
    let nobody = Answer::Nobody {
        hint: "later".into(),
    };
    let app = App::open(scene.project(), wiring(BTreeMap::new(), nobody)).unwrap();
    let mut made = vec![("fine", None, call(&app, "fine", Cancel::never()))];
    for (name, kind) in FATES {
        let cancel = match *kind {
            FailureKind::Cancelled => Cancel::when(async {}),
            _ => Cancel::never(),
        };
        made.push((name, Some(*kind), call(&app, name, cancel)));
    }
    let no = Answer::Denied {
        reason: "not today".into(),
    };
    let app = App::open(scene.project(), wiring(BTreeMap::new(), no)).unwrap();
    let denied = call(&app, "nobody_there", Cancel::never());
    made.push(("nobody_there", Some(FailureKind::ApprovalDenied), denied));
    // A machine that cannot hold the tool: nothing there can start it.
    let without = glee::app::Wiring {
        launcher: "/nonexistent".into(),
        ..wiring(BTreeMap::new(), Answer::Approved)
    };
    let app = App::open(scene.project(), without).unwrap();
    let outcome = call(&app, "fine", Cancel::never());
    made.push(("fine", Some(FailureKind::SandboxUnavailable), outcome));
    let records = records(&scene);
    assert!(made.len() > FATES.len());
    for (tool, failure, outcome) in made {
        let found = outcome.result.as_ref().err().map(|it| it.kind);
        assert_eq!(found, failure, "{tool}: {:?}", outcome.result);
        let id = outcome.id.to_string();
        let own: Vec<&Value> = records
            .iter()
            .filter(|it| it["id"] == id.as_str())
            .collect();
        let last = own
            .last()
            .unwrap_or_else(|| panic!("{tool} left no record"));
        assert_eq!(last["actor"], "somebody", "{last}");
        assert_eq!(last["tool"], tool);
        assert_eq!(last["document"].is_string(), tool != "absent", "{last}");
        assert_eq!(last["args_sha256"].as_str().unwrap().len(), 64, "{last}");
        assert!(
            last["decision"].is_string() && last["duration_ms"].is_number(),
            "{last}"
        );
        let code = failure.map(FailureKind::code);
        assert_eq!(last["code"].as_str(), code, "{last}");
        let has_run = own.iter().any(|it| it["event"] == "TOOL_STARTED");
        assert_eq!(last["event"] == "TOOL_EXECUTED", has_run, "{last}");
        match failure {
            Some(FailureKind::RuleDenied) => {
                assert_eq!(last["decision"], "denied");
                assert_eq!(last["trail"][0]["by"], "rule never");
            }
            Some(FailureKind::ApprovalDenied) => {
                assert_eq!(last["decision"], "denied");
                assert_eq!(last["trail"][1]["reason"], "not today");
            }
            Some(FailureKind::ApprovalRequired) => assert_eq!(last["decision"], "asked"),
            _ => {}
        }
    }
}

#[test]
fn calls_are_told_shown_and_exported() {
    let scene = scene();
    let first = output_json(&scene.glee(&["run", "touch", "--json"]));
    let id = first["meta"]["id"].as_str().unwrap();
    let other = output_json(&scene.glee(&["run", "touch", "--json", "-p", "note=a\nb"]));
    let other = other["meta"]["id"].as_str().unwrap();
    scene.glee(&["run", "absent"]);
    let tail = stdout(&scene.glee(&["audit", "tail", "-n", "2"]));
    assert_eq!(tail.lines().count(), 2, "{tail}");
    assert!(tail.contains("NOT_FOUND"), "{tail}");
    let lines = stdout(&scene.glee(&["audit", "tail", "--json"]));
    let events: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(events.len(), 5);
    let shown = stdout(&scene.glee(&["audit", "show", other]));
    assert!(shown.contains(r#"arguments  {"note":"a\nb"}"#), "{shown}");
    let shown = output_json(&scene.glee(&["audit", "show", &id.to_uppercase(), "--json"]));
    assert_eq!(shown.as_array().unwrap().len(), 2);
    assert_eq!(
        scene.glee(&["audit", "show", "ffffffff"]).status.code(),
        Some(2)
    );
    let export = |args: &[&str]| {
        let args: Vec<&str> = ["audit", "export"].iter().chain(args).copied().collect();
        stdout(&scene.glee(&args)).lines().count()
    };
    assert_eq!(export(&[]), 5);
    assert_eq!(export(&["--tool", "touch", "--since", "1h"]), 4);
    assert_eq!(export(&["--until", "2026-01-01"]), 0);
    assert_eq!(export(&["--format", "csv", "--tool", "absent"]), 2);
    assert_eq!(
        scene
            .glee(&["audit", "export", "--since", "soon"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn the_tail_can_be_followed() {
    let scene = scene();
    scene.glee(&["run", "absent"]);
    let mut child = Command::new(GLEE)
        .args(["audit", "tail", "--follow", "--json"])
        .current_dir(&scene.root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["seq"], 1);
    scene.glee(&["run", "touch"]);
    assert_eq!(
        (next()["seq"].clone(), next()["seq"].clone()),
        (json!(2), json!(3))
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_broken_journal_is_told() {
    let scene = scene();
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = scene.root.join(".glee/audit/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("user", "root", 1)).unwrap();
    let output = scene.glee(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(
        said.starts_with("journal.jsonl:1: event 1: it is not what was written\n"),
        "{said}"
    );
    fs::write(&path, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    let found = output_json(&scene.glee(&["audit", "verify", "--json"]));
    assert_eq!(
        (&found["whole"], &found["problems"][0]["seq"]),
        (&json!(false), &json!(2))
    );
    let doctor = output_json(&scene.glee(&["doctor", "--json"]));
    assert!(
        doctor["audit"]["problem"]
            .as_str()
            .unwrap()
            .contains("was cut"),
        "{doctor}"
    );
}

#[test]
fn why_tells_who_said_what() {
    let scene = scene();
    scene.write(
        ".glee/config.yml",
        "rules: [{name: never, tools: ['t*'], decision: deny, reason: it is Friday}]\n",
    );
    assert_eq!(scene.glee(&["why"]).status.code(), Some(2));
    let output = scene.glee(&["run", "touch", "-p", "note=x", "--json"]);
    assert!(!ran(&scene));
    let told = stdout(&scene.glee(&["why"]));
    for part in [
        "user called `touch`",
        r#"with {"note":"x"}"#,
        "rule never: deny, because it is Friday",
        "so it was denied: RULE_DENIED: it is Friday",
        "what would change what rule never says: ",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let id = output_json(&output)["meta"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = output_json(&scene.glee(&["why", &id, "--json"]));
    assert_eq!(told["steps"][0]["by"], "rule never");
    assert_eq!(told["decision"], "denied");
    scene.write(".glee/config.yml", "");
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stdout(&scene.glee(&["why"]));
    assert!(told.contains("no rule objected"), "{told}");
    assert!(
        told.contains("so it was allowed: it ran, success after"),
        "{told}"
    );
    assert!(told.lines().count() <= 10, "{told}");
}

#[test]
fn se_02_no_grant_opens_the_key_the_head_or_the_tokens() {
    for parent in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let scene = Scene::below(&parent);
        let home = scene.root.parent().unwrap();
        let reach = "name: reach\ndescription: Reaches out\nkind: command\nversion: 1
inputs: {schema: {type: object}}
outputs: {format: text}
exec: {command: {entrypoint: bash, args: [-c, 'cat $(find HOME/state -type f); for it in audit.key audit.head audit.lock; do : > HOME/state/glee/*/$it; done; mv HOME/state HOME/moved; echo on > HOME/beside; echo end']}}
permissions: {fs: {read: [HOME], write: [HOME]}}
approval: {required: false}\n";
        let reach = reach.replace("HOME", &home.to_string_lossy());
        scene.write(".glee/tools/reach/tool.yml", &reach);
        for _ in 0..2 {
            let output = scene.glee(&["run", "reach"]);
            assert_eq!(stdout(&output).trim(), "end", "{}", stderr(&output));
        }
        assert!(home.join("beside").exists(), "the grant itself holds");
        let verified = scene.glee(&["audit", "verify"]);
        assert!(verified.status.success(), "{}", stdout(&verified));
        assert_eq!(records(&scene).len(), 4);
    }
}
