//! A call that needs a person's yes: asked through the client, bound to this very call, good for once.
//! The tool leaves a file behind, so that it can be seen whether it ran.

use serde_json::{Value, json};

use super::server::{Pipes, modern};
use crate::support::Scene;

const TOOL: &str = "\
name: stamp
description: Leave a file behind
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false, required: [name], properties: {name: {type: string, description: The file}}}}
outputs: {format: text}
exec: {command: {entrypoint: touch, args: [--, '${name}'], cwd: out}}
permissions: {network: false, fs: {write: [out]}}
approval: {required: true, reason: it writes}
";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/stamp/tool.yml", TOOL);
    scene.write("out/.keep", "");
    scene
}

struct Client {
    pipes: Pipes,
    next: u64,
}

impl Client {
    fn new(scene: &Scene) -> Client {
        Client {
            pipes: Pipes::start(scene),
            next: 0,
        }
    }

    fn call(&mut self, name: &str, more: Value) -> Value {
        let mut params = json!({"name": "stamp", "arguments": {"name": name}});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.next += 1;
        self.pipes
            .ask(json!(self.next), "tools/call", modern(params))
    }

    /// The state that comes with the question.
    fn asked(&mut self, name: &str) -> Value {
        let answer = self.call(name, json!({}));
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        let question = &answer["result"]["inputRequests"]["glee_approval"]["params"];
        let message = question["message"].as_str().unwrap();
        assert!(
            message.contains(name) && message.contains("it writes"),
            "{message}"
        );
        answer["result"]["requestState"].clone()
    }
}

fn yes() -> Value {
    json!({"glee_approval": {"action": "accept", "content": {"approve": true}}})
}

fn ran(scene: &Scene, name: &str) -> bool {
    scene.root.join("out").join(name).exists()
}

#[test]
fn a_yes_runs_the_call_once() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let state = client.asked("a");
    assert!(!ran(&scene, "a"));
    let again = json!({"inputResponses": yes(), "requestState": state});
    let answer = client.call("a", again.clone());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(ran(&scene, "a"));
    std::fs::remove_file(scene.root.join("out/a")).unwrap();
    let twice = client.call("a", again);
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
    assert!(!ran(&scene, "a"), "a yes was good for two calls");
}

#[test]
fn a_yes_is_for_the_arguments_that_were_shown() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let state = client.asked("a");
    let answer = client.call("b", json!({"inputResponses": yes(), "requestState": state}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(!ran(&scene, "a") && !ran(&scene, "b"));
}

#[test]
fn a_yes_without_the_seal_is_none() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let answer = client.call("a", json!({"inputResponses": yes()}));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert!(!ran(&scene, "a"));
}

#[test]
fn anything_but_a_yes_is_a_no() {
    let scene = scene();
    let mut client = Client::new(&scene);
    for said in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"approve": "true"}}),
        json!({"action": "accept", "content": {"approve": false, "reason": "not today"}}),
        json!({"approve": true}),
        json!(true),
    ] {
        let state = client.asked("a");
        let answer = client.call(
            "a",
            json!({"inputResponses": {"glee_approval": said}, "requestState": state}),
        );
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(!ran(&scene, "a"), "{said}");
    }
}

#[test]
fn a_tool_that_changed_meanwhile_is_asked_about_again() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let state = client.asked("a");
    scene.write(
        ".glee/tools/stamp/tool.yml",
        &TOOL.replace("version: 1", "version: 2"),
    );
    // The change is told, so it has been taken in.
    let listed = |it: &Value| it["method"] == "notifications/tools/list_changed";
    client.pipes.send(&json!({
        "jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen",
        "params": modern(json!({"notifications": {"toolsListChanged": true}})),
    }));
    scene.write(
        ".glee/tools/stamp/tool.yml",
        &TOOL.replace("version: 1", "version: 3"),
    );
    while !listed(&client.pipes.receive()) {}
    let answer = client.call("a", json!({"inputResponses": yes(), "requestState": state}));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert!(!ran(&scene, "a"));
}

#[test]
fn a_client_that_cannot_ask_is_told_so() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-06-18");
    let call = json!({"name": "stamp", "arguments": {"name": "a"}});
    let answer = pipes.ask(json!(1), "tools/call", call);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("APPROVAL_REQUIRED"), "{text}");
    assert!(!ran(&scene, "a"));
}
