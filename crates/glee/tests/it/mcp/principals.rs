//! What the server keeps for one caller is nothing to another: to them it does not exist.

use serde_json::{Value, json};

use super::server::{Served, eventually, glee, scene};
use crate::support::Scene;

/// A server with two who may use it: its owner, and bob, whose token is given.
fn two(scene: &Scene) -> (Served, String) {
    let served = Served::guarded(scene);
    let bob = glee(scene, &["token", "create", "bob"]);
    eventually("bob is let in", || served.admits(&bob));
    (served, bob)
}

/// Bob's request is refused as one about nothing; the owner's is answered.
fn check(served: &Served, bob: &str, method: &str, params: &Value) -> Value {
    let refused = served
        .call_as(Some(bob), 1, method, params.clone())
        .message();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answered = served.call(1, method, params.clone()).message();
    assert!(answered["result"].is_object(), "{answered}");
    answered["result"].clone()
}

#[test]
fn a_task() {
    let scene = scene();
    let (served, bob) = two(&scene);
    let begun = served
        .call(1, "tools/call", json!({"name": "slow", "arguments": {}}))
        .message();
    let id = &begun["result"]["taskId"];
    assert!(id.is_string(), "{begun}");
    check(&served, &bob, "tasks/get", &json!({"taskId": id}));
    check(
        &served,
        &bob,
        "tasks/update",
        &json!({"taskId": id, "inputResponses": {}}),
    );
    check(&served, &bob, "tasks/cancel", &json!({"taskId": id}));
}

#[test]
fn a_large_result() {
    let scene = scene();
    let (served, bob) = two(&scene);
    let text = "a line of a large result\n".repeat(10_000);
    let call = json!({"name": "echo", "arguments": {"text": text}});
    let result = served.call(1, "tools/call", call).message()["result"].clone();
    let uri = &result["structuredContent"]["uri"];
    let read = check(&served, &bob, "resources/read", &json!({"uri": uri}));
    assert_eq!(read["contents"][0]["text"], text);
    // By handle it is a tool that answers, so the refusal is in words.
    let handle = &result["structuredContent"]["handle"];
    let read = json!({"name": "glee_result_read", "arguments": {"handle": handle}});
    let refused = served
        .call_as(Some(&bob), 1, "tools/call", read.clone())
        .message();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let given = served.call(1, "tools/call", read).message();
    assert_ne!(given["result"]["isError"], true, "{given}");
}

/// The state that a client carries between a question and its answer, for itself and once.
#[test]
fn a_question() {
    let scene = scene();
    let (served, bob) = two(&scene);
    let call = json!({"name": "asking", "arguments": {}});
    let asked = served.call(1, "tools/call", call).message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let again = json!({
        "name": "asking", "arguments": {},
        "inputResponses": {"user": {"action": "accept", "content": {"name": "Ada"}}},
        "requestState": asked["requestState"],
    });
    let result = check(&served, &bob, "tools/call", &again);
    assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    let twice = served.call(1, "tools/call", again).message();
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
}

/// What others have run, and with which arguments.
#[test]
fn the_audit() {
    let scene = scene();
    let (served, bob) = two(&scene);
    let call = json!({"name": "echo", "arguments": {"text": "of the owner"}});
    served.call(1, "tools/call", call).message();
    let read = |token: Option<&str>| {
        let params = json!({"uri": "glee://audit/tail"});
        let answer = served.call_as(token, 1, "resources/read", params).message();
        answer["result"]["contents"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(read(served.token.as_deref()).contains("of the owner"));
    assert_eq!(read(Some(&bob)), "");
}

/// A token that the project's own tools could read would make each of them its owner.
#[test]
fn no_token_lies_in_the_project() {
    let scene = scene();
    let inside = scene.root.join(".local/state").display().to_string();
    let output = scene.glee_with(
        &["serve", "--listen", "127.0.0.1:0"],
        &[("XDG_STATE_HOME".to_owned(), inside)].into(),
        "",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(crate::support::stderr(&output).contains("inside of the project"));
    assert!(!scene.root.join(".local").exists());
}
