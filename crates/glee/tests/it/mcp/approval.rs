//! A call that needs a person's yes: asked through the client, bound to this very call, good for once.
//! The tool leaves a file behind, so that it can be seen whether it ran.

use serde_json::{Value, json};

use super::server::{Pipes, eventually, modern};
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

/// A yes that came too early is not kept for the question that follows it.
#[test]
fn a_yes_is_not_carried_on() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let early = client.call("a", json!({"inputResponses": yes()}));
    let state = &early["result"]["requestState"];
    let answer = client.call("a", json!({"requestState": state}));
    assert!(!ran(&scene, "a"), "{answer}");
    // Nor one that was given under seal, when the question is another one by then.
    let elicits = TOOL.replace(
        "outputs:",
        "elicit: [{which: {message: Which file, fields: [name]}}]\noutputs:",
    );
    let second = Scene::new();
    second.write(".glee/tools/stamp/tool.yml", &elicits);
    second.write("out/.keep", "");
    let mut pipes = Pipes::start(&second);
    let mut ask = |more: Value| {
        let mut params = json!({"name": "stamp", "arguments": {}});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        pipes.ask(json!(1), "tools/call", modern(params))["result"].clone()
    };
    let which = |name: &str| json!({"action": "accept", "content": {"name": name}});
    let asked = ask(json!({}));
    let asked = ask(json!({
        "inputResponses": {"which": which("harmless")}, "requestState": asked["requestState"],
    }));
    let shown = asked["inputRequests"]["glee_approval"]["params"]["message"].clone();
    assert!(shown.as_str().unwrap().contains("harmless"), "{asked}");
    let mut both = yes();
    both["which"] = which("evil");
    ask(json!({"inputResponses": both, "requestState": asked["requestState"]}));
    assert!(
        !ran(&second, "evil"),
        "a later answer changed what was approved"
    );
    assert!(ran(&second, "harmless"), "what was shown was approved");
}

/// Also when its version is the same.
#[test]
fn a_tool_whose_file_changed_is_asked_about_again() {
    let scene = scene();
    let script = |text: &str| scene.write("run.sh", &format!("#!/bin/sh\n{text}\n"));
    script("touch out/first");
    let manifest = TOOL.replace(
        "entrypoint: touch, args: [--, '${name}'], cwd: out",
        "entrypoint: ./run.sh",
    );
    scene.write(".glee/tools/stamp/tool.yml", &manifest);
    let mut client = Client::new(&scene);
    let state = client.asked("a");
    client.pipes.send(&json!({
        "jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen",
        "params": modern(json!({"notifications": {"toolsListChanged": true}})),
    }));
    script("touch out/second");
    while client.pipes.receive()["method"] != "notifications/tools/list_changed" {}
    let answer = client.call("a", json!({"inputResponses": yes(), "requestState": state}));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert!(!ran(&scene, "first") && !ran(&scene, "second"));
}

#[test]
fn a_task_waits_for_the_yes() {
    let scene = scene();
    scene.write(
        ".glee/tools/stamp/tool.yml",
        &TOOL.replace("outputs:", "task: supported\noutputs:"),
    );
    let mut client = Client::new(&scene);
    let begun = client.call("a", json!({}));
    let id = begun["result"]["taskId"].clone();
    assert!(id.is_string(), "{begun}");
    let mut ask = |method: &str, more: Value| {
        let mut params = json!({"taskId": id});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.pipes.ask(json!("task"), method, modern(params))["result"].clone()
    };
    eventually("the question is at the desk", || {
        ask("tasks/get", json!({}))["inputRequests"]["glee_approval"].is_object()
    });
    assert!(!ran(&scene, "a"));
    ask("tasks/update", json!({"inputResponses": yes()}));
    eventually("the task has come to its end", || {
        ask("tasks/get", json!({}))["status"] == "completed"
    });
    assert!(ran(&scene, "a"));
}

/// A question that the client cannot answer would lie at the desk for ever.
#[test]
fn a_task_asks_only_what_its_client_can_answer() {
    let scene = scene();
    let elicits = TOOL.replace(
        "outputs:",
        "task: supported\nelicit: [{ask: {message: 'Which name?', fields: [name]}}]\noutputs:",
    );
    scene.write(".glee/tools/stamp/tool.yml", &elicits);
    let mut pipes = Pipes::start(&scene);
    let mut ask = |method: &str, params: Value| {
        let mut params = modern(params);
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        let able = params["_meta"][capabilities].as_object_mut().unwrap();
        able.remove("elicitation");
        pipes.ask(json!(method), method, params)["result"].clone()
    };
    let begun = ask("tools/call", json!({"name": "stamp", "arguments": {}}));
    let id = begun["taskId"].clone();
    assert!(id.is_string(), "{begun}");
    let mut task = Value::Null;
    eventually("the task has come to its end", || {
        task = ask("tasks/get", json!({"taskId": id}));
        task["status"] == "completed"
    });
    assert!(task.to_string().contains("INVALID_INPUT"), "{task}");
}

/// What would look like something else is spelled out, and nothing is left out.
#[test]
fn the_question_shows_what_is_there() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let name = format!("gnp.x\u{202e}{}the end", "y".repeat(60_000));
    let answer = client.call(&name, json!({}));
    let message = answer["result"]["inputRequests"]["glee_approval"]["params"]["message"]
        .as_str()
        .unwrap();
    assert!(message.contains("\\u{202e}"), "{message}");
    assert!(message.contains("writes: out"), "{message}");
    assert!(message.contains("the end"), "{message}");
}

/// What is more than a person can be shown is not asked, cut or whole.
#[test]
fn ap_09_what_cannot_be_shown_is_not_asked() {
    let scene = scene();
    let mut client = Client::new(&scene);
    let answer = client.call(&"y".repeat(100_000), json!({}));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("INVALID_INPUT"), "{text}");
    assert!(text.contains("more than a person can be shown"), "{text}");
}

#[test]
fn anything_but_a_yes_is_a_no() {
    let scene = scene();
    let mut client = Client::new(&scene);
    // A no is remembered, so each is said to another call.
    for (at, said) in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"approve": "true"}}),
        json!({"action": "accept", "content": {"approve": false, "reason": "not today"}}),
        json!({"approve": true}),
        json!(true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{at}");
        let state = client.asked(&name);
        let answer = client.call(
            &name,
            json!({"inputResponses": {"glee_approval": said}, "requestState": state}),
        );
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(!ran(&scene, &name), "{said}");
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
