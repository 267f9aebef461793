//! The example is run as a client would run it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[test]
fn the_tool_is_listed_called_and_refused() {
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join(".glee")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_embedding"))
        .arg(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |method: &str, params: Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        writeln!(to, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(from.read_line(&mut line).unwrap() > 0, "it has gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == method {
                return message["result"].clone();
            }
        }
    };
    ask(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
    );
    let listed = ask("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let tool = tools.iter().find(|it| it["name"] == "count_words").unwrap();
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    let mut call = |args: Value| {
        ask(
            "tools/call",
            json!({"name": "count_words", "arguments": args}),
        )
    };
    let done = call(json!({"text": "to be or not to be", "shortest": 3}));
    assert_eq!(done["structuredContent"], json!({"words": 1}), "{done}");
    let wrong = call(json!({"text": "a", "longest": 3}));
    assert!(wrong.to_string().contains("INVALID_INPUT"), "{wrong}");
    let empty = call(json!({"text": " "}));
    assert!(empty.to_string().contains("there is no text"), "{empty}");
    let long = call(json!({"text": "word ".repeat(5000)}));
    assert!(long.to_string().contains("APPROVAL_REQUIRED"), "{long}");
    drop(to);
    assert!(child.wait().unwrap().success());
}
