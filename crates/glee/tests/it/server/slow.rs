//! Clients that take their time, and those who do not.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::streamed::{events, flood};
use super::{connect, head, rest, say};
use crate::bundles::House;
use crate::mcp::server::{eventually, scene};
use crate::support::long;

fn house(config: &str) -> House {
    House::with(scene(), &format!("server: {{{config}}}\n"))
}

/// The status of a request on a connection of its own, and how long it took.
fn ask(house: &House) -> (u16, Duration) {
    let began = Instant::now();
    let reply = house.ask("GET /tools/bundles", json!(null));
    (reply.status, began.elapsed())
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(err) => err.kind() != ErrorKind::WouldBlock,
    }
}

/// Heads that come byte by byte, never whole, while others are answered.
#[test]
fn slow_heads_keep_nobody_out_and_are_closed() {
    let house = house("head_timeout_ms: 2000");
    let mut slow: Vec<TcpStream> = (0..long(200, 2000)).map(|_| connect(&house)).collect();
    for (at, stream) in slow.iter_mut().enumerate() {
        match at % 3 {
            // Says nothing at all.
            0 => {}
            1 => say(stream, "GET /"),
            _ => say(stream, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
        }
    }
    let mut times = thread::scope(|scope| {
        let good = scope.spawn(|| {
            let asked = (0..long(50, 2000)).map(|_| {
                thread::sleep(Duration::from_millis(5));
                let (status, took) = ask(&house);
                assert_eq!(status, 200);
                took
            });
            asked.collect::<Vec<Duration>>()
        });
        let mut dripped = Instant::now();
        while !slow.is_empty() {
            assert!(
                dripped.elapsed() < Duration::from_secs(30),
                "{} are left",
                slow.len()
            );
            for stream in &mut slow {
                let _ = stream.write(b"x");
            }
            let before = slow.len();
            slow.retain_mut(|it| !is_closed(it));
            if slow.len() < before {
                dripped = Instant::now();
            }
            thread::sleep(Duration::from_millis(100));
        }
        good.join().unwrap()
    });
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    println!(
        "good requests among slow heads: {} of them, p99 {p99:?}",
        times.len()
    );
}

#[test]
fn those_who_only_keep_a_place_make_room() {
    let house = house("connections: 20");
    // None of these would be too slow for a long while.
    let mut silent: Vec<TcpStream> = (0..60).map(|_| connect(&house)).collect();
    for _ in 0..20 {
        assert_eq!(ask(&house).0, 200);
    }
    eventually("the oldest are closed", || {
        silent.iter_mut().take(40).all(is_closed)
    });
}

#[test]
fn when_all_are_being_answered_nobody_else_is_let_in() {
    let house = house("connections: 3");
    let mut events: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = connect(&house);
            say(
                &mut stream,
                &(head(&house, "GET /approvals/events") + "\r\n"),
            );
            let mut begun = [0; 12];
            stream.read_exact(&mut begun).unwrap();
            assert_eq!(&begun, b"HTTP/1.1 200");
            stream
        })
        .collect();
    assert!(rest(&mut connect(&house)).is_empty());
    events.pop();
    eventually("a place is free", || {
        let mut stream = connect(&house);
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        rest(&mut stream).starts_with(b"HTTP/1.1 200")
    });
    assert!(events.iter_mut().all(|it| !drained_and_closed(it)));
}

#[test]
fn a_slow_body_is_not_waited_for() {
    let house = house("body_timeout_ms: 500");
    for (line, kind) in [
        ("POST /run/echo", "application/json"),
        ("POST /tools/bundles/import", "application/zip"),
        ("POST /mcp", "application/json"),
    ] {
        let mut stream = connect(&house);
        let more = format!(
            "Content-Type: {kind}\r\nAccept: application/json, text/event-stream\r\nContent-Length: 5000\r\n\r\n{{\"text\": \""
        );
        say(&mut stream, &(head(&house, line) + &more));
        let mut dripping = stream.try_clone().unwrap();
        let drip = thread::spawn(move || {
            for _ in 0..300 {
                if dripping.write_all(b"x").is_err() {
                    return true;
                }
                thread::sleep(Duration::from_millis(50));
            }
            false
        });
        let answer = String::from_utf8(rest(&mut stream)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 408 "), "{line}: {answer}");
        assert!(head.contains("connection: close"), "{line}: {answer}");
        let error = &serde_json::from_str::<Value>(body).unwrap()["error"];
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("TIMEOUT"), &json!(true))
        );
        assert!(error["hint"].to_string().contains("server.body_timeout_ms"));
        assert!(drip.join().unwrap(), "{line}: it may be said on and on");
    }
    // A large one that comes steadily is no slow one.
    let reply = house.ask("POST /run/echo", json!({"text": "x".repeat(900_000)}));
    assert_eq!(reply.status, 200);
}

#[test]
fn silence_ends_a_connection_and_work_does_not() {
    let house = house("head_timeout_ms: 500, idle_timeout_ms: 1000");
    let mut idle = connect(&house);
    say(&mut idle, &(head(&house, "GET /tools/bundles") + "\r\n"));
    let mut events = connect(&house);
    say(
        &mut events,
        &(head(&house, "GET /approvals/events") + "\r\n"),
    );
    let mut working = connect(&house);
    let body = json!({"seconds": "4"}).to_string();
    let line = head(&house, "POST /run/sleep");
    say(
        &mut working,
        &format!(
            "{line}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    let stream = house.served.send(
        "subscriptions/listen",
        "",
        &json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": crate::mcp::server::modern(json!({"notifications": {"toolsListChanged": true}}))}),
    );
    let began = Instant::now();
    // The first answer comes whole, then the connection is closed.
    assert!(rest(&mut idle).starts_with(b"HTTP/1.1 200"));
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "it was not the work that was waited for"
    );
    let done = rest(&mut working);
    assert!(
        done.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&done)
    );
    for mut open in [events, stream] {
        let mut begun = [0; 12];
        open.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        assert!(!drained_and_closed(&mut open));
    }
}

/// Whether nothing more can come, when everything that came was read.
fn drained_and_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(err) => return err.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// The tool would print for a minute; its call ends when the connection does.
#[test]
fn whoever_does_not_read_is_not_written_to_for_ever() {
    let scene = scene();
    let lines = "exec: {command: {entrypoint: sh, args: [-c, 'yes | head -c 60000000; sleep 60'], timeout_ms: 60000, allow_dash: true}}";
    flood(&scene, "limits: {output_bytes: 67108864}", lines);
    let house = House::with(scene, "server: {idle_timeout_ms: 1000}\n");
    let _deaf = events(&house.served, &house.owner, "flood");
    let log = house.scene.root.join(".glee/audit/tools.log");
    eventually("the call is taken back", || {
        std::fs::read_to_string(&log).is_ok_and(|it| it.contains("CANCELLED"))
    });
}

/// A server that stops reading may be heard to hang up before its answer is.
fn refused(what: &str, answer: &[u8]) {
    let text = String::from_utf8_lossy(answer);
    let is_refusal = text.starts_with("HTTP/1.1 431") || text.starts_with("HTTP/1.1 414");
    assert!(answer.is_empty() || is_refusal, "{what}: {text}");
}

#[test]
fn heads_have_bounds() {
    let house = house("");
    let fields =
        |count: usize| -> String { (0..count).map(|it| format!("X-{it}: 1\r\n")).collect() };
    for (what, more) in [
        ("a long one", format!("X-Long: {}\r\n", "x".repeat(100_000))),
        ("many", fields(10_000)),
        ("more than a hundred", fields(200)),
    ] {
        let mut stream = connect(&house);
        let _ = stream.write_all((head(&house, "GET /tools/bundles") + &more + "\r\n").as_bytes());
        refused(what, &rest(&mut stream));
    }
    let mut stream = connect(&house);
    let line = head(&house, &format!("GET /{}", "x".repeat(80_000)));
    let _ = stream.write_all((line + "\r\n").as_bytes());
    refused("a long path", &rest(&mut stream));
    assert_eq!(ask(&house).0, 200);
}

/// A protocol whose answers a client can hold back for ever is not spoken.
#[test]
fn http_2_is_refused() {
    let house = house("");
    let mut stream = connect(&house);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    let _ = stream.write_all(&bytes);
    let answer = rest(&mut stream);
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    assert_eq!(ask(&house).0, 200);
}
