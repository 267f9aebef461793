//! The examples of a tool that waits: run for the person who looks at it, in the sandbox, and in no other
//! way.

use std::fs;

use serde_json::{Value, json};

use super::{Agent, exists, plain, record, relax, scene, scene_with, stamp};
use crate::support::{self, Scene, repository};

/// A tool that comes with a script and examples, and is granted to read `src`.
fn tried(scene: &Scene, script: &str, permissions: Value, examples: Value) -> Value {
    let mut definition = stamp("tried");
    definition["permissions"] = permissions;
    definition["examples"] = examples;
    let files = json!({"run.sh": format!("#!/bin/sh\n{script}\n")});
    let (made, text) = Agent::of(scene).create_with("tried", definition, files);
    assert!(made, "{text}");
    support::json(&scene.glee(&["tools", "review", "tried", "--json"]))["examples"].clone()
}

#[test]
fn t2_examples_are_run_before_a_person_is_asked() {
    let scene = scene();
    let results = tried(
        &scene,
        "cat src/a.txt",
        json!({"fs": {"read": ["src"]}}),
        json!([
            {"description": "right", "params": {}, "expected_output": "inside"},
            {"description": "wrong", "params": {}, "expected_output": "outside"},
        ]),
    );
    assert_eq!(
        results[0],
        json!({"example": "right", "result": "passed", "detail": ""})
    );
    assert_eq!(results[1]["result"], "failed", "{results}");
    assert_eq!(record(&scene, "tried")["trials"]["examples"], results);
    // They are kept, and run again when the tool is another one.
    let runs = || {
        let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
        log.matches("TOOL_EXECUTED name=tried").count()
    };
    assert_eq!(runs(), 2);
    scene.glee(&["tools", "review", "tried"]);
    assert_eq!(runs(), 2);
    scene.write(".glee/tools/tried/run.sh", "#!/bin/sh\necho outside\n");
    let again = support::json(&scene.glee(&["tools", "review", "tried", "--json"]));
    assert_eq!(again["examples"][1]["result"], "passed", "{again}");
    assert_eq!(runs(), 4);
    assert_eq!(again["review"], "pending");
}

/// Nothing of the project is changed by a tool that nobody has approved.
#[test]
fn t2_a_trial_writes_nothing_and_reaches_nobody() {
    let scene = scene();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "touch out/tried src/tried tried .glee/tried\npython3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'\nexit 0"
    );
    let results = tried(
        &scene,
        &script,
        json!({"fs": {"read": ["src"]}}),
        json!([{"description": "x", "params": {}}]),
    );
    assert_eq!(
        results[0]["result"], "passed",
        "it was not even run: {results}"
    );
    for path in ["out/tried", "src/tried", "tried", ".glee/tried"] {
        assert!(!exists(&scene, path), "{path}");
    }
    assert!(listener.accept().is_err(), "somebody came");
}

#[test]
fn t2_examples_that_need_more_are_not_run() {
    let ceiling = "fs: {read: [src], write: [out]}, network: true, secrets: [KEY]";
    let secret = json!({"KEY": {"type": "string", "required": false}});
    for (permissions, more, why) in [
        (json!({"fs": {"write": ["out"]}}), "", "it writes files"),
        (json!({"network": true}), "", "it uses the network"),
        (json!({"secrets": secret}), "", "it uses secrets"),
        (
            json!({}),
            "sandbox: off\n",
            "nothing on this machine would hold it to its permissions",
        ),
        (
            json!({}),
            "autonomy: hitl\n",
            "`tried` runs only when a person approves: it only reads, and autonomy is hitl [APPROVAL_REQUIRED]",
        ),
        (
            json!({}),
            "rules: [{name: no, tools: [tried], decision: ask, reason: our own}]\n",
            "`tried` runs only when a person approves: our own [APPROVAL_REQUIRED]",
        ),
    ] {
        let scene = scene_with(&format!(
            "security: {{max_permissions: {{{ceiling}}}}}\n{more}"
        ));
        let results = tried(
            &scene,
            "touch out/tried",
            permissions,
            json!([{"description": "x", "params": {}}]),
        );
        assert_eq!(
            results[0],
            json!({"example": "x", "result": "not_run", "detail": why})
        );
        assert!(!exists(&scene, "out/tried"), "{why}");
    }
}

#[test]
fn t2_a_request_to_somebody_else_is_not_tried() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let scene = scene_with(&format!(
        "security: {{max_permissions: {{network: {{hosts: ['{address}']}}}}}}\n"
    ));
    let mut definition = plain(json!({"network": {"hosts": [address.to_string()]}}));
    definition["kind"] = json!("http");
    definition["exec"] = json!({"http": {"method": "GET", "url": format!("http://{address}/")}});
    definition["examples"] = json!([{"description": "x", "params": {}}]);
    let (made, text) = Agent::of(&scene).create("caller", definition);
    assert!(made, "{text}");
    let look = support::json(&scene.glee(&["tools", "review", "caller", "--json"]));
    assert_eq!(look["examples"][0]["result"], "not_run", "{look}");
    assert!(listener.accept().is_err(), "somebody came");
}

/// Whatever a caller says, a call is a call.
#[test]
fn t2_no_surface_can_ask_for_a_trial() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    let mut definition = stamp("secretly");
    definition["inputs"]["schema"]["additionalProperties"] = json!(true);
    let files = json!({"run.sh": "#!/bin/sh\ntouch out/secretly\n"});
    assert!(agent.create_with("secretly", definition, files).0);
    relax(&scene, "secretly");
    let said = json!({"trial": true, "purpose": "trial", "admission": "trial", "review": "approved", "kind": "Trial"});
    let mut params = json!({"name": "secretly", "arguments": said, "_meta": said, "trial": true});
    agent.ask("tools/call", params.clone());
    params["name"] = json!("glee_tool");
    params["arguments"] = json!({"name": "secretly", "params": said});
    agent.ask("tools/call", params);
    let spoken = ["trial=true".to_owned(), said.to_string()];
    scene.glee(&["run", "secretly", "-p", &spoken[0]]);
    scene.glee(&["run", "secretly", "--params", &spoken[1]]);
    assert!(!exists(&scene, "out/secretly"));
    // And nothing else could make one: only a review gets at it.
    let src = repository().join("crates/glee/src");
    let mut named = Vec::new();
    let mut left = vec![src.clone()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(".trial(") {
                named.push(path.strip_prefix(&src).unwrap().display().to_string());
            }
        }
    }
    named.sort();
    assert_eq!(named, ["app.rs", "review/trial.rs"]);
}
