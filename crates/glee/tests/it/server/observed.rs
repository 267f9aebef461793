//! What a server tells of itself: metrics, logs, traces.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bundles::House;
use crate::mcp::server::{PATIENCE, Served, command, eventually, scene};
use crate::support::{Scene, json};

/// A tool that gives away its secret.
fn leaky(scene: &Scene) {
    scene.write(
        ".glee/tools/leaky/tool.yml",
        "name: leaky
description: A tool for tests
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false, properties: {text: {type: string, description: Any}}}}
outputs: {format: text}
exec: {command: {entrypoint: printenv, args: [CANARY_KEY], env: {CANARY_KEY: '${CANARY_KEY}'}}}
permissions: {secrets: {CANARY_KEY: {type: string, required: true}}}
approval: {required: false}
",
    );
}

const CANARY: &str = "canary-0123456789-secret";

fn metrics(house: &House) -> String {
    let reply = house.ask("GET /metrics", Value::Null);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(
        reply
            .header("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    reply.body
}

#[test]
fn metrics_count_calls_and_need_a_token_that_may_read() {
    let house = House::with(scene(), "");
    house.expect(200, "POST /run/echo", json!({"text": "x"}));
    house.expect(400, "POST /run/echo", json!({"text": 1}));
    house.expect(404, "POST /run/made-up-by-a-stranger", json!({}));
    let text = metrics(&house);
    for line in [
        "glee_calls_total{tool=\"echo\",decision=\"allow\",outcome=\"OK\"} 1",
        "glee_calls_total{tool=\"echo\",decision=\"none\",outcome=\"INVALID_INPUT\"} 1",
        "glee_calls_total{tool=\"other\",decision=\"none\",outcome=\"NOT_FOUND\"} 1",
        "glee_call_duration_seconds_count{tool=\"echo\"} 1",
        "glee_calls_running 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(!text.contains("stranger"));
    let caller = house.token("caller", &["invoke_tool"]);
    let refused = house
        .served
        .rest("GET /metrics", &caller, &[], &Value::Null);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(
        house
            .served
            .rest("GET /metrics", "nobody", &[], &Value::Null)
            .status,
        401
    );
}

#[test]
fn logs_tell_of_calls_and_not_of_secrets() {
    for form in ["json", "text"] {
        let scene = scene();
        leaky(&scene);
        let env = BTreeMap::from([("CANARY_KEY".to_owned(), CANARY.to_owned())]);
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--no-auth",
            "--log",
            form,
            "--log-level",
            "debug",
        ];
        let served = Served::start_with(&scene, &args, &env);
        let ask =
            |tool: &str, args: Value| served.rest(&format!("POST /run/{tool}"), "", &[], &args);
        assert_eq!(ask("leaky", json!({"text": CANARY})).status, 200);
        assert_eq!(
            ask("echo", json!({"text": "an argument of mine"})).status,
            200
        );
        assert_eq!(ask("not there\n{\"forged\": 1}", json!({})).status, 400);
        assert_eq!(ask("not-there", json!({})).status, 404);
        eventually("it is told", || served.said().contains("NOT_FOUND"));
        let said = served.said();
        assert!(
            !said.contains(CANARY) && !said.contains("an argument of mine"),
            "{said}"
        );
        if form == "json" {
            let lines: Vec<Value> = said
                .lines()
                .map(|it| serde_json::from_str(it).unwrap())
                .collect();
            let called = lines
                .iter()
                .find(|it| it["event"] == "called" && it["tool"] == "echo")
                .unwrap();
            assert_eq!(
                (&called["level"], &called["outcome"]),
                (&json!("info"), &json!("OK"))
            );
            assert!(
                lines
                    .iter()
                    .any(|it| it["level"] == "warn" && it["outcome"] == "NOT_FOUND")
            );
        } else {
            assert!(
                said.contains(" INFO  called tool=echo actor=anyone"),
                "{said}"
            );
        }
    }
}

/// Takes what a collector takes, and gives on what came.
/// Refuses so many requests first.
fn collector(refused: usize) -> (u16, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let status = match at < refused {
                true => "503 Service Unavailable",
                false => "200 OK",
            };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let sent = serde_json::from_slice(&body).unwrap();
            if sender.send((head, sent)).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

fn is_hex(value: &Value, digits: usize) -> bool {
    let text = value.as_str().unwrap();
    text.len() == digits
        && text.bytes().all(|it| b"0123456789abcdef".contains(&it))
        && text.bytes().any(|it| it != b'0')
}

#[test]
fn a_collector_gets_a_span_for_each_call() {
    let (port, came) = collector(0);
    let house = House::with(
        scene(),
        &format!("telemetry: {{otlp: 'http://127.0.0.1:{port}'}}\n"),
    );
    let done = house.expect(
        200,
        "POST /run/echo",
        json!({"text": "an argument of mine"}),
    );
    house.expect(400, "POST /run/echo", json!({"text": 1}));
    let mut spans = Vec::new();
    while spans.len() < 2 {
        let (head, sent) = came.recv_timeout(PATIENCE).unwrap();
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(!sent.to_string().contains("an argument of mine"));
        let resource = &sent["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "glee"}})
        );
        spans.extend(
            resource["scopeSpans"][0]["spans"]
                .as_array()
                .unwrap()
                .clone(),
        );
    }
    // By the rules of OTLP's JSON: ids in hex, 64-bit numbers as text, enumerations as numbers.
    for span in &spans {
        assert!(
            is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16),
            "{span}"
        );
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
        assert_eq!(
            (&span["name"], &span["kind"]),
            (&json!("execute_tool echo"), &json!(1))
        );
        for attribute in span["attributes"].as_array().unwrap() {
            assert!(attribute["key"].is_string() && attribute["value"]["stringValue"].is_string());
        }
    }
    let id = done["meta"]["id"].as_str().unwrap().replace('-', "");
    assert_eq!(
        (&spans[0]["traceId"], &spans[0]["status"]),
        (&json!(id), &json!({"code": 1}))
    );
    assert_eq!(
        spans[1]["status"],
        json!({"code": 2, "message": "INVALID_INPUT"})
    );
}

/// One that takes connections and never answers.
#[test]
fn what_a_collector_refuses_is_counted() {
    let (port, came) = collector(1);
    let house = House::with(
        scene(),
        &format!("telemetry: {{otlp: 'http://127.0.0.1:{port}'}}\n"),
    );
    let lost = || {
        house.expect(400, "POST /run/echo", json!({"text": 1}));
        let (_, sent) = came.recv_timeout(PATIENCE).unwrap();
        let known = sent["resourceSpans"][0]["resource"]["attributes"].clone();
        let known = known.as_array().unwrap().iter();
        let mut counts = known.filter(|it| it["key"] == "glee.lost_spans");
        counts.next().map(|it| it["value"]["intValue"].clone())
    };
    assert_eq!([lost(), lost(), lost()], [None, Some(json!("1")), None]);
}

#[test]
fn a_collector_that_hangs_slows_nobody() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hole.local_addr().unwrap().port();
    let house = House::with(
        scene(),
        &format!("telemetry: {{otlp: 'http://127.0.0.1:{port}/v1/traces'}}\n"),
    );
    let began = Instant::now();
    for _ in 0..20 {
        house.expect(400, "POST /run/echo", json!({"text": 1}));
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop(hole);
}

/// A command that ends after its call has told of it by then.
#[test]
fn a_collector_gets_the_span_of_a_command() {
    let (port, came) = collector(0);
    let scene = scene();
    scene.write(
        ".glee/config.yml",
        &format!("telemetry: {{otlp: 'http://127.0.0.1:{port}'}}\n"),
    );
    for (text, code, status) in [
        ("text=x", 0, json!({"code": 1})),
        ("other=x", 2, json!({"code": 2, "message": "INVALID_INPUT"})),
    ] {
        let output = scene.glee(&["run", "echo", "-p", text, "--json"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        let (_, sent) = came.recv_timeout(PATIENCE).unwrap();
        let span = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let id = json(&output)["meta"]["id"]
            .as_str()
            .unwrap()
            .replace('-', "");
        assert_eq!((&span["traceId"], &span["status"]), (&json!(id), &status));
    }
}

/// The answer is out before a collector that hangs is waited for, and not for long.
#[test]
fn a_collector_that_hangs_delays_no_answer_of_a_command() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hole.local_addr().unwrap().port();
    let scene = scene();
    scene.write(
        ".glee/config.yml",
        &format!("telemetry: {{otlp: 'http://127.0.0.1:{port}'}}\n"),
    );
    let mut child = command(&scene, &["run", "echo", "-p", "text=mine"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    let answered = Instant::now();
    let output = child.wait_with_output().unwrap();
    let waited = answered.elapsed();
    assert_eq!(answer, "mine\n");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("telemetry.otlp"), "{said}");
    assert!(waited > Duration::from_millis(300), "{waited:?}");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    drop(hole);
}
