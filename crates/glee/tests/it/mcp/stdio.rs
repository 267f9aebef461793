//! `glee mcp` goes on, whatever a client or a tool does to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{Pipes, eventually, initialize, modern, running, scene, unique};

#[test]
fn every_revision_is_spoken() {
    let scene = scene();
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut pipes = Pipes::open(&scene, version);
        let listed = pipes.ask(json!(1), "tools/list", json!({}));
        assert!(listed["result"]["tools"][0]["name"].is_string(), "{listed}");
    }
    // A client that asks for what is not spoken gets the newest that has a handshake.
    for version in ["2026-07-28", "1999-01-01"] {
        let mut pipes = Pipes::start(&scene);
        pipes.send(&initialize(version));
        let answer = pipes.answer(&json!(0));
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
    }
}

/// Codex says no more than this.
/// Its clients refuse an answer as a whole for one block that they do not know.
#[test]
fn the_first_revision_knows_no_links() {
    let scene = scene();
    scene.write(".glee/config.yml", "mcp: {result_bytes: 1000}");
    for (version, kind) in [("2025-03-26", "text"), ("2025-06-18", "resource_link")] {
        let mut pipes = Pipes::open(&scene, version);
        let text = "x".repeat(2000);
        let params = json!({"name": "echo", "arguments": {"text": text}});
        let answer = pipes.ask(json!(1), "tools/call", params);
        let link = &answer["result"]["content"][1];
        assert_eq!(link["type"], kind, "{version}: {answer}");
        assert!(link.to_string().contains("glee://results/"), "{link}");
    }
}

#[test]
fn codex_opens_with_2025_06_18() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-06-18");
    let result = pipes.ask(
        json!(1),
        "tools/call",
        json!({"name": "echo", "arguments": {"text": "hello"}}),
    );
    assert_eq!(result["result"]["content"][0]["text"], "hello", "{result}");
    assert!(result["result"].get("resultType").is_none(), "{result}");
}

/// Claude Code asks in the new way first, and in the old way when no answer comes soon enough, so that
/// both questions may wait when the server begins to read.
#[test]
fn claude_code_opens_both_ways_at_once() {
    let scene = scene();
    let mut pipes = Pipes::start(&scene);
    let discover = json!({
        "jsonrpc": "2.0", "id": "server-discover-probe-1", "method": "server/discover",
        "params": super::server::modern(json!({})),
    });
    pipes.send_line(format!("{discover}\n{}", initialize("2025-11-25")).as_bytes());
    let (first, second) = (pipes.receive(), pipes.receive());
    let ids = BTreeSet::from([first["id"].to_string(), second["id"].to_string()]);
    assert_eq!(
        ids,
        BTreeSet::from(["0".to_owned(), "\"server-discover-probe-1\"".to_owned()])
    );
    for answer in [first, second] {
        assert!(answer["result"].is_object(), "{answer}");
    }
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let listed = pipes.ask(json!(1), "tools/list", json!({}));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
}

#[test]
fn what_is_no_message_is_survived() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    for line in [
        "this is no JSON",
        "",
        "{",
        "[]",
        "[1, 2, 3]",
        "null",
        "{}",
        r#"{"jsonrpc": "2.0"}"#,
        r#"{"jsonrpc": "2.0", "id": 7}"#,
        r#"{"jsonrpc": "1.0", "id": 8, "method": "ping"}"#,
        r#"{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}"#,
        r#"{"jsonrpc": "2.0", "id": 99, "result": {}}"#,
        "\u{feff}\u{0}",
    ] {
        pipes.send_line(line.as_bytes());
    }
    pipes.send_line(b"\xff\xfe not UTF-8");
    let pong = pipes.ask(json!("still there"), "ping", json!({}));
    assert!(pong["result"].is_object(), "{pong}");
}

/// A client may give up its probe before it says hello; and what nobody asked for is no hello.
#[test]
fn what_comes_before_the_first_word_is_survived() {
    let scene = scene();
    let early = [
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "probe"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/of/another/protocol"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}),
    ];
    let mut legacy = Pipes::start(&scene);
    let probe = legacy.ask(json!("probe"), "server/discover", modern(json!({})));
    assert!(probe["result"].is_object(), "{probe}");
    let mut stateless = Pipes::start(&scene);
    for message in &early {
        legacy.send(message);
        stateless.send(message);
    }
    // This names a version that nobody knows, so it opens nothing.
    let mut unknown = modern(json!({}));
    unknown["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2999-01-01".into();
    let refused = stateless.ask(json!(2), "tools/list", unknown);
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    stateless.send(&early[0]);
    let listed = stateless.ask(json!(3), "tools/list", modern(json!({})));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    legacy.send(&initialize("2025-11-25"));
    let hello = legacy.answer(&json!(0));
    assert!(hello["result"].is_object(), "{hello}");
}

#[test]
fn an_unknown_method_is_answered() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let answer = pipes.ask(json!(1), "no/such/method", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

/// The method is known; it is what stands beside it that is not.
#[test]
fn what_is_wrong_with_a_request_is_told() {
    let scene = scene();
    let mut legacy = Pipes::open(&scene, "2025-11-25");
    let mut stateless = Pipes::start(&scene);
    let mut both = |method: &str, params: Value| {
        let first = legacy.ask(json!(1), method, params.clone());
        let second = stateless.ask(json!(1), method, modern(params));
        [first, second]
    };
    for (method, params, why) in [
        ("tools/call", json!({"arguments": {}}), "`name`"),
        ("tools/call", json!({"name": 7}), "string"),
        (
            "tools/call",
            json!({"name": "echo", "requestState": 7}),
            "string",
        ),
        ("prompts/get", json!({}), "`name`"),
        ("resources/read", json!({"uri": []}), "string"),
    ] {
        for answer in both(method, params) {
            assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(
                message.contains(method) && message.contains(why),
                "{message}"
            );
        }
    }
    // Some models write JSON into a text. They must see what is wrong.
    for (arguments, kind) in [(json!(r#"{"text": "x"}"#), "string"), (json!([]), "array")] {
        let params = json!({"name": "echo", "arguments": arguments});
        let [first, second] = both("tools/call", params);
        let expected = format!(
            "INVALID_INPUT: the arguments of `echo` are not valid: must be object, not {kind}"
        );
        for answer in [&first, &second] {
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert_eq!(answer["result"]["content"][0]["text"], expected.as_str());
        }
        assert!(first["result"].get("resultType").is_none(), "{first}");
        assert_eq!(second["result"]["resultType"], "complete");
    }
    let [first, second] = both("logging/setLevel", json!({"level": "loud"}));
    assert_eq!(first["error"]["code"], -32602, "{first}");
    // That is a method of the other era, whatever stands beside it.
    assert_eq!(second["error"]["code"], -32601, "{second}");
    let [first, second] = both("logging/setLevel", json!({"level": "debug"}));
    assert!(first["result"].is_object(), "{first}");
    assert_eq!(second["error"]["code"], -32601, "{second}");
    let twice = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo","name":"sleep"}}"#;
    legacy.send_line(twice);
    assert_eq!(legacy.answer(&json!(9))["error"]["code"], -32602);
}

/// Also one that would be told what else is missing only after it had answered.
#[test]
fn nobody_is_asked_for_a_call_that_cannot_be_made() {
    let scene = scene();
    scene.write(
        ".glee/tools/order/tool.yml",
        "name: order\ndescription: Order\nkind: command\nversion: 1\n\
         inputs: {schema: {type: object, required: [what, size, sort], properties: {sort: {type: string, description: Sort, default: black}, what: {type: string, description: What}, size: {type: string, description: Size}}}}\n\
         elicit: [{size: {message: 'How large is ${what}?', fields: [size]}}]\noutputs: {format: text}\n\
         exec: {command: {entrypoint: printf, args: ['%s %s', '${size}', '${what}']}}\n\
         permissions: {network: false}\napproval: {required: false}\n",
    );
    let mut pipes = Pipes::start(&scene);
    let mut order = |args: Value| {
        let params = modern(json!({"name": "order", "arguments": args}));
        pipes.ask(json!(1), "tools/call", params)["result"].clone()
    };
    let asked = order(json!({"what": "tea"}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let refused = order(json!({}));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(
        refused.to_string().contains("`what` is required"),
        "{refused}"
    );
}

#[test]
fn an_unknown_tool_and_wrong_arguments_are_answered() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let unknown = pipes.ask(json!(1), "tools/call", json!({"name": "eccho"}));
    assert!(unknown.to_string().contains("echo"), "{unknown}");
    let arguments = json!({"text": 1});
    let wrong = pipes.ask(
        json!(2),
        "tools/call",
        json!({"name": "echo", "arguments": arguments}),
    );
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    let text = wrong["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("text"), "{wrong}");
}

#[test]
fn a_line_of_20_megabytes_is_survived() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x".repeat(20_000_000)}},
    });
    pipes.send(&call);
    let pong = pipes.ask(json!(2), "ping", json!({}));
    assert!(pong["result"].is_object(), "{pong}");
}

#[test]
fn a_tool_cannot_speak_for_the_server() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let forged = r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}"#;
    let answer = pipes.ask(
        json!(1),
        "tools/call",
        json!({"name": "echo", "arguments": {"text": format!("{forged}\n{forged}\n")}}),
    );
    let text = answer["result"]["content"][0]["text"].as_str();
    assert!(text.is_some_and(|it| it.contains("jsonrpc")), "{answer}");
    // Nothing else came under this id: the next message is the next answer.
    pipes.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(pipes.receive()["id"], 2);
}

#[test]
fn a_thousand_calls_at_once() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let calls = (0..1000).map(|it| (it, format!("call {it}")));
    let calls: BTreeSet<(i64, String)> = calls.collect();
    for (id, text) in &calls {
        pipes.send(&echo(*id, text));
    }
    let answers: BTreeSet<(i64, String)> = calls.iter().map(|_| echoed(&pipes.receive())).collect();
    assert_eq!(answers, calls);
}

/// Also a client that uses an id again before it was answered gets each answer, once.
#[test]
fn a_thousand_calls_at_once_with_colliding_ids() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let mut calls = BTreeSet::new();
    for at in 0..1000 {
        calls.insert((at % 100, format!("call {at}")));
        pipes.send(&echo(at % 100, &format!("call {at}")));
    }
    while !calls.is_empty() {
        let answer = echoed(&pipes.receive());
        assert!(calls.remove(&answer), "{answer:?}");
    }
    let pong = pipes.ask(json!("still there"), "ping", json!({}));
    assert!(pong["result"].is_object(), "{pong}");
}

fn echo(id: i64, text: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": text}},
    })
}

fn echoed(answer: &Value) -> (i64, String) {
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{answer}"));
    (answer["id"].as_i64().unwrap(), text.to_owned())
}

#[test]
fn a_cancelled_call_leaves_no_process() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let seconds = sleeping(&mut pipes);
    pipes.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    }));
    eventually("the tool is gone", || !running(&seconds));
    // What was taken back is not answered: the next message is the next answer.
    pipes.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(pipes.receive()["id"], 2);
}

#[test]
fn a_call_is_answered_however_its_line_is_written() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let params = r#""params":{"name":"echo","arguments":{"text":"x"}}"#;
    let method = r#""method":"tools/call""#;
    let lines = [
        format!(r#"{{"jsonrpc":"2.0","id":1,{method},{params}}}"#),
        format!(r#"{{ "jsonrpc" : "2.0", "id":2, {method} , {params} }} "#),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":3,{method},{params}}}\r"),
        format!(r#"{{"jsonrpc":"2.0","id":4,"method":"tools\/call",{params}}}"#),
        format!(
            r#"{{{params},{method},"more":["notifications/cancelled"],"id":5,"jsonrpc":"2.0"}}"#
        ),
    ];
    for (at, line) in (1..).zip(&lines) {
        pipes.send_line(line.as_bytes());
        assert_eq!(echoed(&pipes.receive()), (at, "x".to_owned()), "{line}");
    }
    // In pieces.
    for (at, line) in (1..).zip(&lines) {
        let (last, first) = line.as_bytes().split_last().unwrap();
        pipes.send_bytes(first);
        pipes.send_line(&[*last]);
        assert_eq!(echoed(&pipes.receive()), (at, "x".to_owned()), "{line}");
    }
}

/// Only what is a call is run, and only a cancellation takes one back.
#[test]
fn what_only_looks_like_a_call_or_its_end_is_none() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let seconds = sleeping(&mut pipes);
    let log = || std::fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    pipes.send_line(br#"["2.0",2,"tools/call",{"name":"echo","arguments":{"text":"x"}}]"#);
    pipes.send_line(br#"["2.0",null,"notifications/cancelled",{"requestId":1}]"#);
    pipes.send(
        &json!({"jsonrpc": "1.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    let asked = pipes.ask(json!(3), "notifications/cancelled", json!({"requestId": 1}));
    assert!(asked["error"].is_object(), "{asked}");
    for more in [r#""id":null"#, r#""result":{}"#, r#""error":null"#] {
        let params = r#""params":{"requestId":1}"#;
        pipes.send_line(
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled",{more},{params}}}"#)
                .as_bytes(),
        );
        assert_eq!(pipes.receive()["error"]["code"], -32600, "{more}");
    }
    // A request that is an answer as well is neither.
    for more in [
        r#""result":{}"#,
        r#""result":null"#,
        r#""error":{"code":1,"message":""}"#,
    ] {
        let params = r#""params":{"name":"echo","arguments":{"text":"x"}}"#;
        pipes.send_line(
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call",{more},{params}}}"#)
                .as_bytes(),
        );
        assert_eq!(pipes.receive()["error"]["code"], -32600, "{more}");
    }
    // So is what is no text, wherever in it.
    pipes.send_line(b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"more\":\"\xff\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"x\"}}}");
    pipes.ask(json!(4), "ping", json!({}));
    assert!(running(&seconds), "it was taken back");
    assert!(!log().contains("name=echo"), "{}", log());
}

/// A client that used an id twice takes both calls back by it.
#[test]
fn calls_with_the_same_id_are_taken_back_together() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let both = [sleeping(&mut pipes), sleeping(&mut pipes)];
    pipes.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    }));
    eventually("the tools are gone", || !both.iter().any(|it| running(it)));
    pipes.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(pipes.receive()["id"], 2);
}

/// What is read together with the end of the handshake goes another way than what comes later.
#[test]
fn a_call_that_came_with_the_end_of_the_handshake_is_taken_back_too() {
    let scene = scene();
    let mut pipes = Pipes::start(&scene);
    pipes.send(&initialize("2025-11-25"));
    pipes.answer(&json!(0));
    let first = unique();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    // In one piece.
    pipes.send_bytes(format!("{initialized}\n{}\n", sleep(&first)).as_bytes());
    eventually("the tool runs", || running(&first));
    let second = sleeping(&mut pipes);
    pipes.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
    }));
    eventually("the tools are gone", || {
        !running(&first) && !running(&second)
    });
}

/// What a call says of itself is held to the same rules whichever way it goes.
#[test]
fn a_call_of_another_era_than_the_session_is_refused_as_any_request_is() {
    let scene = scene();
    let mut pipes = Pipes::start(&scene);
    let opened = pipes.ask(json!(0), "server/discover", modern(json!({})));
    assert!(opened["result"].is_object(), "{opened}");
    let call = json!({"name": "echo", "arguments": {"text": "x"}});
    let called = pipes.ask(json!(1), "tools/call", modern(call.clone()));
    assert_eq!(echoed(&called), (1, "x".to_owned()));
    for method in ["tools/call", "tools/list"] {
        let bare = pipes.ask(json!(2), method, call.clone());
        assert_eq!(bare["error"]["code"], -32602, "{bare}");
        let mut unknown = modern(call.clone());
        unknown["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
        let unknown = pipes.ask(json!(3), method, unknown);
        assert_eq!(unknown["error"]["code"], -32022, "{unknown}");
    }
    // Who began without a handshake goes on so, also after one.
    pipes.send(&initialize("2025-06-18"));
    pipes.answer(&json!(0));
    for method in ["tools/call", "tools/list"] {
        let bare = pipes.ask(json!(4), method, call.clone());
        assert_eq!(bare["error"]["code"], -32602, "{bare}");
    }
}

#[test]
fn a_client_that_goes_leaves_no_process() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let seconds = sleeping(&mut pipes);
    pipes.hang_up();
    eventually("the tool is gone", || !running(&seconds));
    eventually("the server is gone", || {
        pipes.child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_killed_server_leaves_no_process() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let seconds = sleeping(&mut pipes);
    pipes.child.kill().unwrap();
    eventually("the tool is gone", || !running(&seconds));
}

/// Starts a call that would take ten minutes, and gives the word by which its process is found.
fn sleeping(pipes: &mut Pipes) -> String {
    let seconds = unique();
    pipes.send(&sleep(&seconds));
    eventually("the tool runs", || running(&seconds));
    seconds
}

fn sleep(seconds: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "sleep", "arguments": {"seconds": seconds}},
    })
}

/// Progress and log lines come before the answer, and only to who asked for them.
#[test]
fn notes_of_a_tool_reach_its_caller() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    pipes.send(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "note", "arguments": {}, "_meta": {"progressToken": "p"}},
    }));
    let mut progress: Vec<Value> = Vec::new();
    loop {
        let message = pipes.receive();
        if message["method"] == "notifications/progress" {
            progress.push(message["params"].clone());
        }
        if message["id"] == 1 {
            break;
        }
    }
    assert_eq!(
        progress,
        [json!({"progressToken": "p", "progress": 1.0, "total": 2.0, "message": "half"})]
    );
}

/// A client hears of a new tool, and finds it in the list then.
#[test]
fn a_new_tool_is_told_of() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let echo = std::fs::read_to_string(scene.root.join(".glee/tools/echo/tool.yml")).unwrap();
    let manifest = echo.replace("name: echo", "name: fresh");
    scene.write(".glee/tools/fresh/tool.yml", &manifest);
    while pipes.receive()["method"] != "notifications/tools/list_changed" {}
    let listed = pipes.ask(json!(1), "tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|it| it["name"] == "fresh"), "{listed}");
}

/// However often a client says that hands were shaken.
#[test]
fn a_change_is_told_once() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    for _ in 0..5 {
        pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
    pipes.ask(json!(1), "ping", json!({}));
    let told = |pipes: &Pipes, word: &str| {
        let echo = std::fs::read_to_string(scene.root.join(".glee/tools/echo/tool.yml")).unwrap();
        let manifest = echo.replace("name: echo", &format!("name: {word}"));
        scene.write(&format!(".glee/tools/{word}/tool.yml"), &manifest);
        assert_eq!(
            pipes.receive()["method"],
            "notifications/tools/list_changed"
        );
    };
    told(&pipes, "fresh");
    // Whatever else is told of this change has come before the answer.
    pipes.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(pipes.receive()["id"], 2);
    told(&pipes, "fresher");
}

/// All that a client subscribes to is kept for it.
#[test]
fn only_so_much_is_subscribed_to() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let mut subscribe = |uri: String| {
        let answer = pipes.ask(json!(1), "resources/subscribe", json!({"uri": uri}));
        answer["error"]["code"].clone()
    };
    assert_eq!(subscribe(format!("x:{}", "y".repeat(5000))), -32602);
    for at in 0..1000 {
        assert!(subscribe(format!("x:{at}")).is_null());
    }
    assert_eq!(subscribe("x:more".into()), -32602);
    let mut stateless = Pipes::start(&scene);
    let uris: Vec<String> = (0..2000)
        .map(|it| format!("x:{}", "y".repeat(3000 + it)))
        .collect();
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    stateless.send(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": modern(wanted)}),
    );
    let accepted = stateless.receive();
    let kept = &accepted["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(
        kept.as_array().unwrap().len(),
        1000,
        "{}",
        accepted["method"]
    );
}

/// What fits into the pipe is in it, and the rest waits. An answer that comes meanwhile must not be what the
/// rest waits for.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    let scene = scene();
    let (mut pipes, later) = Pipes::start_and_read_later(&scene);
    pipes.send(&initialize("2025-11-25"));
    pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let text = "x".repeat(60_000);
    let log = scene.root.join(".glee/audit/tools.log");
    for id in 1..=3 {
        pipes.send(&echo(id, &text));
        eventually("the tool has run", || {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            log.matches("TOOL_EXECUTED").count() as i64 == id
        });
    }
    drop(later);
    pipes.answer(&json!(0));
    for id in 1..=3 {
        assert_eq!(echoed(&pipes.receive()), (id, text.clone()));
    }
}

/// Lists are written in pieces, between which no other answer may come.
#[test]
fn many_lists_at_once_are_whole() {
    let scene = scene();
    let mut pipes = Pipes::open(&scene, "2025-11-25");
    let whole = pipes.ask(json!("first"), "tools/list", json!({}))["result"].clone();
    assert!(whole["tools"].as_array().unwrap().len() > 6, "{whole}");
    for id in 0..200 {
        let method = if id % 3 == 0 { "ping" } else { "tools/list" };
        pipes.send(&json!({"jsonrpc": "2.0", "id": id, "method": method}));
    }
    for _ in 0..200 {
        let answer = pipes.receive();
        if !answer["id"].as_u64().unwrap().is_multiple_of(3) {
            assert_eq!(answer["result"], whole);
        }
    }
}
