//! `/mcp` of `glee serve`: who gets in, and what those who are in cannot do to it or to each other.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::server::{Reply, Served, eventually, glee, initialize, modern, running, scene, unique};

/// A session of the handshake era; gives its id.
fn session(served: &Served) -> String {
    let reply = served.post(&[], &initialize("2025-11-25"));
    assert_eq!(reply.status, 200, "{reply:?}");
    let session = reply.header("mcp-session-id").unwrap().to_owned();
    let ready = served.post(
        &[("Mcp-Session-Id", &session)],
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    assert_eq!(ready.status, 202, "{ready:?}");
    session
}

fn echo(text: &str) -> Value {
    json!({"name": "echo", "arguments": {"text": text}})
}

fn text(reply: &Reply) -> String {
    let message = reply.message();
    let text = message["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

#[test]
fn both_eras_on_one_address() {
    let scene = scene();
    let served = Served::guarded(&scene);
    assert_eq!(text(&served.call(1, "tools/call", echo("new"))), "new");
    let session = session(&served);
    let reply = served.post(
        &[
            ("Mcp-Session-Id", &session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ],
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": echo("old")}),
    );
    assert_eq!(text(&reply), "old");
}

/// Empty events, by which newer clients know where to go on, end the connection of older ones: they
/// take every event for JSON. Gemini is one of these, and does not tell its version in a header.
#[test]
fn older_clients_get_no_empty_events() {
    let scene = scene();
    let served = Served::open(&scene);
    let begun = served.post(&[], &initialize("2025-06-18"));
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let listed = served.post(
        &[("Mcp-Session-Id", &session)],
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    );
    for reply in [begun, listed] {
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        let events = reply.body.lines().filter_map(|it| it.strip_prefix("data:"));
        for data in events {
            assert_ne!(data.trim(), "", "{reply:?}");
        }
    }
}

#[test]
fn foreign_pages_and_names_are_refused() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let port = served.address.split_once(':').unwrap().1.to_owned();
    for (name, value, status) in [
        ("Origin", "https://evil.example".to_owned(), 403),
        ("Origin", "null".to_owned(), 403),
        (
            "Origin",
            format!("http://localhost.evil.example:{port}"),
            403,
        ),
        ("Host", "evil.example".to_owned(), 403),
        ("Host", format!("evil.example:{port}"), 403),
        ("Host", format!("127.0.0.1.evil.example:{port}"), 403),
        ("Origin", format!("http://127.0.0.1:{port}"), 200),
        ("Origin", format!("http://localhost:{port}"), 200),
        ("Host", format!("localhost:{port}"), 200),
        ("Host", format!("[::1]:{port}"), 200),
    ] {
        let reply = served.post(&[(name, &value)], &initialize("2025-11-25"));
        assert_eq!(reply.status, status, "{name}: {value}: {reply:?}");
        // No page of another origin may read an answer, whatever it is.
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[test]
fn without_the_token_nobody_gets_in() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let token = served.token.clone().unwrap();
    for wrong in [
        "",
        "Bearer",
        "Bearer wrong",
        &token,
        &format!("Basic {token}"),
    ] {
        let reply = served.post(&[("Authorization", wrong)], &initialize("2025-11-25"));
        assert_eq!(reply.status, 401, "{wrong:?}: {reply:?}");
        assert!(reply.header("www-authenticate").is_some(), "{reply:?}");
    }
    // Nor is the request looked at: what is in it makes no difference.
    let reply = served.post_bytes(&[("Authorization", "")], b"not even JSON");
    assert_eq!(reply.status, 401, "{reply:?}");
}

#[test]
fn the_token_is_for_its_owner_only_and_stays() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let file = served.token_file();
    for (path, mode) in [(file.as_path(), 0o600), (file.parent().unwrap(), 0o700)] {
        let found = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    // A tool may read the project, and must not become a client by that.
    assert!(!file.starts_with(scene.root.join(".glee")));
    let token = served.token.clone();
    assert!(token.as_ref().unwrap().len() >= 32);
    drop(served);
    assert_eq!(Served::guarded(&scene).token, token);
}

#[test]
fn a_revoked_token_is_of_no_use() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let bob = glee(&scene, &["token", "create", "bob"]);
    eventually("bob is let in", || served.admits(&bob));
    glee(&scene, &["token", "revoke", "bob"]);
    eventually("bob is kept out", || !served.admits(&bob));
    assert!(served.admits(served.token.as_deref().unwrap()));
}

/// Browsers send such a request to any address without asking first.
#[test]
fn only_json_is_read() {
    let scene = scene();
    let served = Served::guarded(&scene);
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        let reply = served.post(&[("Content-Type", kind)], &initialize("2025-11-25"));
        assert_eq!(reply.status, 415, "{kind}: {reply:?}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": modern(echo(&"x".repeat(20_000_000))),
    });
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ];
    assert_eq!(served.post(&headers, &call).status, 413);
    assert_eq!(
        text(&served.call(2, "tools/call", echo("still there"))),
        "still there"
    );
}

#[test]
fn what_is_no_message_is_survived() {
    let scene = scene();
    let served = Served::open(&scene);
    for body in [
        "",
        "this is no JSON",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"jsonrpc": "2.0", "id": 7}"#,
    ] {
        let reply = served.post_bytes(&[], body.as_bytes());
        assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
    }
    let unknown = served.call(1, "no/such/method", json!({}));
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert_eq!(unknown.message()["error"]["code"], -32601);
    assert_eq!(
        text(&served.call(2, "tools/call", echo("still there"))),
        "still there"
    );
}

#[test]
fn sessions_are_counted() {
    let scene = scene();
    let served = Served::open(&scene);
    let mut refused = None;
    for _ in 0..2000 {
        let reply = served.post(&[], &initialize("2025-11-25"));
        if reply.status != 200 {
            refused = Some(reply.status);
            break;
        }
    }
    assert!(matches!(refused, Some(429 | 503)), "{refused:?}");
    // Who needs no session is not kept out by those who hold them all.
    assert_eq!(text(&served.call(1, "tools/call", echo("new"))), "new");
}

#[test]
fn listeners_are_counted() {
    let scene = scene();
    let served = Served::open(&scene);
    let params = modern(json!({"notifications": {"toolsListChanged": true}}));
    let listen =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let mut listening = Vec::new();
    let refused = loop {
        let mut stream = served.send("subscriptions/listen", "", &listen);
        let said = beginning(&mut stream);
        if said.contains("\"error\"") {
            break said;
        }
        listening.push(stream);
        assert!(listening.len() < 2000);
    };
    assert!(refused.contains("too many"), "{refused}");
    // The others are not disturbed, and who goes makes room.
    assert_eq!(text(&served.call(2, "tools/call", echo("new"))), "new");
    listening.clear();
    eventually("there is room again", || {
        let mut stream = served.send("subscriptions/listen", "", &listen);
        beginning(&mut stream).contains("acknowledged")
    });
}

/// What comes up to the first message, and with it; the stream goes on.
fn beginning(stream: &mut TcpStream) -> String {
    let mut said = String::new();
    while !said.contains("\"jsonrpc\"") {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    said
}

#[test]
fn an_unknown_session_is_not_found() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let reply = served.post(&[("Mcp-Session-Id", "no-such-session")], &ping);
    assert_eq!(reply.status, 404, "{reply:?}");
}

/// Whoever learns of a session that is not theirs has learned nothing.
#[test]
fn a_session_belongs_to_who_began_it() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let session = session(&served);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let bob = glee(&scene, &["token", "create", "bob"]);
    eventually("bob is let in", || served.admits(&bob));
    let bob = format!("Bearer {bob}");
    for method in ["POST", "GET", "DELETE"] {
        let headers = [
            ("Mcp-Session-Id", session.as_str()),
            ("Authorization", &bob),
        ];
        let reply = served.request(method, &headers, ping.as_bytes());
        assert_eq!(reply.status, 404, "{method}: {reply:?}");
    }
    let reply = served.post_bytes(&[("Mcp-Session-Id", &session)], ping.as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// Ten clients, each with a session, make the same hundred requests under the same ids.
#[test]
fn a_thousand_calls_at_once_with_colliding_ids() {
    let scene = scene();
    let served = Served::open(&scene);
    std::thread::scope(|threads| {
        for client in 0..10 {
            let served = &served;
            threads.spawn(move || {
                let session = session(served);
                std::thread::scope(|threads| {
                    for worker in 0..10 {
                        let session = &session;
                        threads.spawn(move || {
                            for id in worker * 10..worker * 10 + 10 {
                                let mine = format!("client {client}, call {id}");
                                let call = json!({
                                    "jsonrpc": "2.0", "id": id, "method": "tools/call",
                                    "params": echo(&mine),
                                });
                                let reply = served.post(&[("Mcp-Session-Id", session)], &call);
                                let ids: BTreeSet<i64> = reply
                                    .messages()
                                    .iter()
                                    .filter_map(|it| it["id"].as_i64())
                                    .collect();
                                assert_eq!(ids, BTreeSet::from([id]), "{reply:?}");
                                assert_eq!(text(&reply), mine);
                            }
                        });
                    }
                });
            });
        }
    });
}

/// In the stateless era the closed stream is the cancellation.
#[test]
fn a_client_that_goes_leaves_no_process() {
    let scene = scene();
    let served = Served::open(&scene);
    let seconds = unique();
    let params = modern(json!({"name": "sleep", "arguments": {"seconds": seconds}}));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let stream = served.send("tools/call", "sleep", &call);
    eventually("the tool runs", || running(&seconds));
    drop(stream);
    eventually("the tool is gone", || !running(&seconds));
    assert_eq!(
        text(&served.call(2, "tools/call", echo("still there"))),
        "still there"
    );
}

/// Whoever holds a token may be a program that answers its own questions.
#[test]
fn over_http_a_client_does_not_say_yes_for_its_user() {
    let scene = scene();
    let asks = "\
name: stamp
description: Leave a file behind
kind: command
version: 1
inputs: {schema: {type: object, properties: {}}}
outputs: {format: text}
exec: {command: {entrypoint: touch, args: [ran], cwd: out}}
permissions: {network: false, fs: {write: [out]}}
approval: {required: true, reason: it writes}
";
    scene.write(".glee/tools/stamp/tool.yml", asks);
    scene.write("out/.keep", "");
    let asked = |config: &str| {
        scene.write(".glee/config.yml", config);
        let served = Served::guarded(&scene);
        let params = json!({"name": "stamp", "arguments": {}});
        served.call(1, "tools/call", params).body
    };
    let alone = asked("");
    assert!(alone.contains("APPROVAL_REQUIRED"), "{alone}");
    assert!(!alone.contains("input_required"), "{alone}");
    let trusted = asked("approvals: {elicitation: allow}\n");
    assert!(trusted.contains("input_required"), "{trusted}");
    assert!(!scene.root.join("out/ran").exists());
}
