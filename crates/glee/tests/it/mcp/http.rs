//! `/mcp` of `glee serve`: who gets in, and what those who are in cannot do to it or to each other.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::server::{Reply, Served, eventually, initialize, modern, running, scene, unique};

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
    let first = Served::guarded(&scene).token.clone();
    let second = Served::guarded(&scene).token.clone();
    assert_eq!(first, second);
    assert!(first.unwrap().len() >= 32);
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
fn an_unknown_session_is_not_found() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let reply = served.post(&[("Mcp-Session-Id", "no-such-session")], &ping);
    assert_eq!(reply.status, 404, "{reply:?}");
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
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut stream = TcpStream::connect(&served.address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: sleep\r\nContent-Length: {}\r\n\r\n{call}",
        served.address,
        call.len()
    )
    .unwrap();
    eventually("the tool runs", || running(&seconds));
    drop(stream);
    eventually("the tool is gone", || !running(&seconds));
    assert_eq!(
        text(&served.call(2, "tools/call", echo("still there"))),
        "still there"
    );
}
