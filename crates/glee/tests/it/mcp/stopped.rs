//! A server that stops leaves no call without an end.

use std::process::Command;

use serde_json::{Value, json};

use super::server::{Pipes, Served, eventually, home, modern};
use crate::support::{GLEE, Scene};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(
        ".glee/tools/slow/tool.yml",
        "name: slow\ndescription: Takes its time\nkind: command\nversion: 1
inputs: {schema: {type: object}}
outputs: {format: text}
exec: {command: {entrypoint: sleep, args: ['100']}}
permissions: {fs: {read: [], write: []}}
approval: {required: false}\n",
    );
    scene
}

fn events(scene: &Scene) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(scene.root.join(".glee/audit/journal.jsonl"));
    let text = text.unwrap_or_default();
    let events = text.lines().map(|it| {
        let event: Value = serde_json::from_str(it).unwrap();
        (
            event["event"].as_str().unwrap().to_owned(),
            event["code"].clone(),
        )
    });
    events.collect()
}

fn is_ended(scene: &Scene) {
    let expected = [
        ("TOOL_STARTED".to_owned(), Value::Null),
        ("TOOL_EXECUTED".to_owned(), json!("CANCELLED")),
    ];
    assert_eq!(events(scene), expected);
    let verified = Command::new(GLEE)
        .args(["audit", "verify"])
        .current_dir(&scene.root)
        .env("HOME", home(scene))
        .env_remove("XDG_STATE_HOME")
        .output();
    assert!(verified.unwrap().status.success());
}

fn signal(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn ad_08_a_client_that_goes_or_a_signal_ends_the_calls_of_a_pipe() {
    for how in ["hang up", "-TERM", "-INT", "-HUP"] {
        let scene = scene();
        let mut pipes = Pipes::open(&scene, "2025-11-25");
        pipes.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "slow", "arguments": {}}}));
        eventually("the tool runs", || events(&scene).len() == 1);
        match how {
            "hang up" => pipes.hang_up(),
            name => signal(pipes.child.id(), name),
        }
        assert!(pipes.child.wait().unwrap().success(), "{how}");
        is_ended(&scene);
    }
}

#[test]
fn ad_08_a_signal_ends_the_calls_of_a_server() {
    let scene = scene();
    let mut served = Served::open(&scene);
    let params = modern(json!({"name": "slow", "arguments": {}}));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let _stream = served.send("tools/call", "slow", &call);
    eventually("the tool runs", || events(&scene).len() == 1);
    signal(served.child.id(), "-TERM");
    assert!(served.child.wait().unwrap().success());
    is_ended(&scene);
}
