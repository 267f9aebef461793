//! What comes while a tool runs, what is too large for one answer, and what is not there at all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::bundles::{House, said};
use crate::mcp::server::{Served, eventually, scene};
use crate::support::Scene;
use crate::upstream::Upstream;

const SECRET: &str = "sesame-0123456789-open";

/// A tool that prints its secret in two halves, with a pause between that nobody need wait for: it goes on when
/// the first line was heard.
fn talking(scene: &Scene) {
    scene.write(
        ".glee/tools/talk/tool.yml",
        "name: talk
description: A tool for tests
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false}}
outputs: {format: text}
exec: {command: {entrypoint: ./talk.sh, env: {KEY: '${KEY}'}}}
permissions: {fs: {read: [talk.sh, go], write: []}, secrets: {KEY: {type: string, required: true}}}
approval: {required: false}
",
    );
    scene.write(
        "talk.sh",
        "#!/bin/sh\necho first\nwhile ! [ -s go/on ]; do sleep 0.05; done\n\
         printf 'x%.10s' \"$KEY\"\nsleep 0.3\nprintf '%sx\\n' \"${KEY#??????????}\"\necho last\n",
    );
    std::fs::create_dir(scene.root.join("go")).unwrap();
}

/// A tool that prints more than anybody reads.
pub(super) fn flood(scene: &Scene, limits: &str, exec: &str) {
    scene.write(
        ".glee/tools/flood/tool.yml",
        &format!(
            "name: flood
description: A tool for tests
kind: command
version: 1
inputs: {{schema: {{type: object, additionalProperties: false}}}}
outputs: {{format: text}}
{limits}
{exec}
permissions: {{fs: {{read: [], write: []}}}}
approval: {{required: false}}
"
        ),
    );
}

/// The built-in bundle that the tools of a project are in is not theirs, so the address is asked for.
fn address(served: &Served, token: &str, name: &str) -> String {
    let listed = served.rest(
        &format!("GET /tools/tools/search?q={name}"),
        token,
        &[],
        &Value::Null,
    );
    let listed = said(&listed);
    let tool = &listed["tools"][0];
    let text = |key: &str| tool[key].as_str().unwrap_or_else(|| panic!("{listed}"));
    format!(
        "/tools/bundles/{}/tools/{}/version/{}",
        text("bundleID"),
        text("slug"),
        text("version")
    )
}

/// A call of a tool that takes nothing, whose events come on this connection.
pub(super) fn events(served: &Served, token: &str, name: &str) -> TcpStream {
    let line = format!("POST {}/invoke", address(served, token, name));
    let accept = [("Accept", "text/event-stream")];
    served.rest_stream(&line, token, &accept, &json!({"args": {}}))
}

#[test]
fn what_a_tool_prints_is_heard_while_it_runs_and_without_secrets() {
    let scene = scene();
    talking(&scene);
    let env = BTreeMap::from([("KEY".to_owned(), SECRET.to_owned())]);
    let served = Served::open_with(&scene, &env);
    let stream = events(&served, "", "talk");
    let mut events: Vec<(String, Value)> = Vec::new();
    let mut name = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        assert!(!line.contains("sesame-012"), "{line}");
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((name.clone(), serde_json::from_str(data).unwrap()));
            if events.len() == 1 {
                // The tool still runs, because it waits for this.
                scene.write("go/on", "1");
            }
            if name == "result" {
                break;
            }
        }
    }
    let printed: String = events
        .iter()
        .filter(|it| it.0 == "output")
        .map(|it| it.1["text"].as_str().unwrap())
        .collect();
    assert_eq!(printed, "first\nx[REDACTED:KEY]x\nlast\n", "{events:?}");
    let (last, result) = events.last().unwrap();
    assert_eq!(
        (last.as_str(), &result["value"]),
        ("result", &json!(printed))
    );
    let mut offset = 0;
    for (_, output) in events.iter().filter(|it| it.0 == "output") {
        assert_eq!(output["offset"], offset);
        offset += output["text"].as_str().unwrap().len();
    }
}

/// Whoever does not read what a tool prints does not keep it running.
#[test]
fn a_deadline_comes_also_when_nobody_reads() {
    let scene = scene();
    let lines = "exec: {command: {entrypoint: yes, args: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa], timeout_ms: 1500}}";
    flood(&scene, "", lines);
    let served = Served::open_with(&scene, &BTreeMap::new());
    let _unread = events(&served, "", "flood");
    let log = scene.root.join(".glee/audit/tools.log");
    eventually("the call is over", || {
        std::fs::read_to_string(&log).is_ok_and(|it| it.contains("TIMEOUT"))
    });
}

#[test]
fn a_large_result_is_kept_for_its_caller() {
    let house = House::with(scene(), "");
    let text: String = (0..20_000).map(|it| format!("line {it}\n")).collect();
    let short = house.expect(
        200,
        "POST /run/echo?max_bytes=100",
        json!({"text": "short"}),
    );
    assert_eq!(
        (&short["value"], &short["meta"]["result"]),
        (&json!("short"), &Value::Null)
    );
    let cut = house.expect(200, "POST /run/echo?max_bytes=100", json!({"text": text}));
    assert_eq!(cut["meta"]["result"]["bytes"], text.len());
    assert!(text.starts_with(cut["value"].as_str().unwrap().trim_end_matches('…')));
    let id = cut["meta"]["result"]["id"].as_str().unwrap();

    let mut read = String::new();
    let mut offset = json!(0);
    while let Some(at) = offset.as_u64() {
        let part = house.expect(
            200,
            &format!("GET /results/{id}?offset={at}&limit=100000"),
            Value::Null,
        );
        read += part["text"].as_str().unwrap();
        offset = part["nextOffset"].clone();
    }
    assert_eq!(read, text);
    let found = house.expect(
        200,
        &format!("GET /results/{id}?grep=LINE%2019999"),
        Value::Null,
    );
    assert_eq!(found["lines"][0]["text"], "line 19999");
    for wrong in ["offset=-1", "limit=x", "limit=0", "other=1"] {
        house.expect(400, &format!("GET /results/{id}?{wrong}"), Value::Null);
    }
    // Nobody else's, and none that was made up.
    let other = house.token("other", &["invoke_tool", "read_registry"]);
    let refused = house
        .served
        .rest(&format!("GET /results/{id}"), &other, &[], &Value::Null);
    assert_eq!(refused.status, 404, "{refused:?}");
    house.expect(
        404,
        "GET /results/00000000000000000000000000000000",
        Value::Null,
    );
    // The same by the path of the tool.
    let at = address(&house.served, &house.owner, "echo");
    let body = json!({"args": {"text": text}, "maxBytes": 10});
    let cut = house.expect(200, &format!("POST {at}/invoke"), body);
    assert_eq!(cut["value"], "line 0\nlin…");
}

/// What one caller keeps costs nobody else what they keep.
#[test]
fn a_flood_of_results_displaces_its_own() {
    let scene = scene();
    let lines =
        "exec: {command: {entrypoint: sh, args: [-c, 'yes | head -c 20000000'], allow_dash: true}}";
    flood(&scene, "limits: {output_bytes: 67108864}", lines);
    let house = House::with(scene, "");
    let id = |kept: &Value| kept["meta"]["result"]["id"].as_str().unwrap().to_owned();
    let kept = house.expect(200, "POST /run/echo?max_bytes=1", json!({"text": "mine"}));
    let mine = id(&kept);
    let other = house.token("other", &["invoke_tool", "read_registry"]);
    let floods = [(); 4].map(|()| {
        let flood = "POST /run/flood?max_bytes=1";
        said(&house.served.rest(flood, &other, &[], &json!({})))
    });
    let read = |token: &str, id: &str| {
        let line = format!("GET /results/{id}?limit=1");
        house.served.rest(&line, token, &[], &Value::Null).status
    };
    assert_eq!(read(&house.owner, &mine), 200);
    let theirs = floods.each_ref().map(|it| read(&other, &id(it)));
    assert_eq!(theirs, [404, 404, 404, 200]);
}

/// No handle is given that nothing could be read by.
#[test]
fn what_is_too_large_to_be_kept_is_said_to_be() {
    let scene = scene();
    let lines =
        "exec: {command: {entrypoint: sh, args: [-c, 'yes | head -c 34000000'], allow_dash: true}}";
    flood(&scene, "limits: {output_bytes: 67108864}", lines);
    let house = House::with(scene, "");
    let cut = house.expect(200, "POST /run/flood?max_bytes=3", json!({}));
    assert_eq!(
        (&cut["value"], &cut["meta"]["result"]),
        (&json!("y\ny…"), &Value::Null)
    );
    let told = cut["warnings"].to_string();
    assert!(told.contains("too large to be kept"), "{told}");
    let call = json!({"name": "flood", "arguments": {}});
    let told = house.served.call(1, "tools/call", call).body;
    assert!(told.contains("too large to be kept"), "{told}");
    assert!(!told.contains("glee://results/"), "{told}");
}

#[test]
fn what_is_not_there_is_told_like_everything_else() {
    let house = House::new();
    let nowhere = house.ask("GET /nowhere/at/all", Value::Null);
    assert_eq!(nowhere.status, 404);
    assert_eq!(said(&nowhere)["error"]["code"], "NOT_FOUND");
    let not_so = house.ask("PUT /tools/bundles", json!({}));
    assert_eq!(not_so.status, 405);
    assert_eq!(said(&not_so)["ok"], false, "{not_so:?}");
    assert!(
        not_so.header("allow").is_some_and(|it| it.contains("GET")),
        "{not_so:?}"
    );
    // Without a token nobody learns what is there.
    assert_eq!(
        house
            .served
            .rest("GET /nowhere", "none", &[], &Value::Null)
            .status,
        401
    );
}

#[test]
fn hints_are_in_the_words_of_bundles() {
    let upstream = Upstream::start();
    let port = upstream.port();
    let house = House::with(
        Scene::new(),
        &format!("bundles: {{allowed_hosts: ['127.0.0.1:{port}']}}\n"),
    );
    let bundle = house.bundle("b");
    let at = crate::bundles::tool(bundle, "t", "1");
    let body = json!({"type": "http", "impl": {"urlTemplate": format!("http://127.0.0.1:{port}/slow"), "timeoutMs": 1, "maxRetries": 0}});
    house.expect(201, &format!("PUT {at}"), body);
    let late = house.ask(&format!("POST {at}/invoke"), json!({"args": {}}));
    let hint = said(&late)["error"]["hint"].to_string();
    assert!(
        !hint.contains("timeout_ms") && !hint.contains("manifest"),
        "{late:?}"
    );
}
