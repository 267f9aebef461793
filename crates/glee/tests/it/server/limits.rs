//! How often tools may be called.

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bundles::{House, said};
use crate::mcp::server::{Pipes, eventually};
use crate::support::{Scene, long};
use crate::upstream::Upstream;

fn tool(scene: &Scene, name: &str, limits: &str, exec: &str, permissions: &str) {
    let kind = exec.trim_start_matches('{').split(':').next().unwrap();
    scene.write(
        &format!(".glee/tools/{name}/tool.yml"),
        &format!(
            "name: {name}
description: A tool for tests
kind: {kind}
version: 1
inputs: {{schema: {{type: object, additionalProperties: false}}}}
outputs: {{format: text}}
limits: {{{limits}}}
exec: {exec}
permissions: {permissions}
approval: {{required: false}}
"
        ),
    );
}

const TRUE: &str = "{command: {entrypoint: 'true'}}";

#[test]
fn a_tool_is_called_so_often_in_a_minute_on_every_surface() {
    let scene = Scene::new();
    tool(&scene, "rare", "calls_per_minute: 3", TRUE, "{}");
    tool(&scene, "other", "", TRUE, "{}");
    let house = House::with(scene, "");
    for _ in 0..3 {
        house.expect(200, "POST /run/rare", json!({}));
    }
    let refused = house.ask("POST /run/rare", json!({}));
    assert_eq!(refused.status, 429, "{refused:?}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let error = &said(&refused)["error"];
    assert_eq!(error["code"], "RATE_LIMITED");
    assert_eq!(error["retryable"], true);
    assert_eq!(error["details"]["limit"], "calls_per_minute");
    // The same count holds for MCP.
    let served = &house.served;
    let reply = served.call(1, "tools/call", json!({"name": "rare", "arguments": {}}));
    assert!(reply.body.contains("RATE_LIMITED"), "{reply:?}");
    let reply = served.call(2, "tools/call", json!({"name": "other", "arguments": {}}));
    assert!(!reply.body.contains("RATE_LIMITED"), "{reply:?}");
}

#[test]
fn the_config_holds_for_every_tool_and_a_tool_can_only_say_less() {
    let scene = Scene::new();
    tool(&scene, "bold", "calls_per_minute: 50", TRUE, "{}");
    tool(&scene, "shy", "calls_per_minute: 1", TRUE, "{}");
    scene.write(".glee/config.yml", "limits: {calls_per_minute: 2}\n");
    let mut pipes = Pipes::open(&scene, "2025-06-18");
    let mut limited = |name: &str, id: u64| {
        let answer = pipes.ask(
            json!(id),
            "tools/call",
            json!({"name": name, "arguments": {}}),
        );
        answer.to_string().contains("RATE_LIMITED")
    };
    assert_eq!(
        [1, 2, 3].map(|it| limited("bold", it)),
        [false, false, true]
    );
    assert_eq!([4, 5].map(|it| limited("shy", it)), [false, true]);
}

/// What is refused is not run, and not asked about.
#[test]
fn what_is_beyond_the_limit_does_not_run() {
    let scene = Scene::new();
    let exec = "{command: {entrypoint: ./mark.sh}}";
    tool(
        &scene,
        "mark",
        "calls_per_minute: 1",
        exec,
        "{fs: {read: [mark.sh], write: [marks]}}",
    );
    scene.write("mark.sh", "#!/bin/sh\necho x >> marks/all\n");
    std::fs::create_dir(scene.root.join("marks")).unwrap();
    let house = House::with(scene, "");
    house.expect(200, "POST /run/mark", json!({}));
    house.expect(429, "POST /run/mark", json!({}));
    let marks = std::fs::read_to_string(house.scene.root.join("marks/all")).unwrap();
    assert_eq!(marks, "x\n");
    let audit = std::fs::read_to_string(house.scene.root.join(".glee/audit/tools.log")).unwrap();
    assert!(
        audit.contains("TOOL_REFUSED") && audit.contains("RATE_LIMITED"),
        "{audit}"
    );
}

/// A service that takes connections and never answers.
#[test]
fn calls_into_a_black_hole_are_capped_and_the_rest_refused_at_once() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hole.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut held = Vec::new();
        for stream in hole.incoming() {
            held.push(stream);
        }
    });
    let scene = Scene::new();
    let url = format!(
        "{{http: {{method: GET, url: 'http://127.0.0.1:{port}/', timeout_ms: 4000, retry: {{times: 0}}}}}}"
    );
    let hosts = format!("{{network: {{hosts: ['127.0.0.1:{port}']}}}}");
    tool(&scene, "hole", "calls_at_once: 20", &url, &hosts);
    tool(&scene, "fine", "", TRUE, "{}");
    let house = House::with(scene, "");
    let (calls, at_once) = (long(300, 10_000), long(30, 100));
    let (ran, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < calls {
                    let began = Instant::now();
                    let reply = house.ask("POST /run/hole", json!({}));
                    match reply.status {
                        429 => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            assert!(
                                began.elapsed() < Duration::from_secs(3),
                                "{:?}",
                                began.elapsed()
                            );
                        }
                        504 => {
                            ran.fetch_add(1, Ordering::Relaxed);
                        }
                        other => panic!("{other}: {reply:?}"),
                    }
                }
            });
        }
        // Others are served meanwhile.
        assert_eq!(house.ask("POST /run/fine", json!({})).status, 200);
    });
    let (ran, refused) = (ran.into_inner(), refused.into_inner());
    assert_eq!(ran + refused, calls);
    assert!(
        ran >= 20 && refused > 0,
        "{ran} ran, {refused} were refused"
    );
    println!(
        "{calls} calls into a black hole: {ran} ran, {refused} were refused; {} KiB of memory at most",
        peak(house.served.child.id())
    );
    if calls > 1000 {
        assert!(peak(house.served.child.id()) < 400 << 10);
    }
    eventually("there is room again", || {
        house.ask("POST /run/hole", json!({})).status == 504
    });
}

/// The most memory a process has had, in KiB.
fn peak(process: u32) -> u64 {
    let mut status = String::new();
    std::fs::File::open(format!("/proc/{process}/status"))
        .unwrap()
        .read_to_string(&mut status)
        .unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let line = line.unwrap().trim().trim_end_matches(" kB");
    line.parse().unwrap()
}

#[test]
fn a_tool_of_a_bundle_has_limits_of_its_own() {
    let upstream = Upstream::start();
    let config = format!(
        "bundles: {{allowed_hosts: ['127.0.0.1:{}']}}\n",
        upstream.port()
    );
    let house = House::with(Scene::new(), &config);
    let bundle = house.bundle("b");
    let made = |slug: &str, more: Value| {
        let mut how = json!({"method": "POST", "urlTemplate": format!("{}/echo", upstream.origin()), "bodyTemplate": "{\"text\": \"${text}\"}"});
        how.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let body = json!({"type": "http", "impl": how,
            "argSchema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}});
        let at = crate::bundles::tool(bundle, slug, "1");
        (
            house.ask(&format!("PUT {at}"), body),
            format!("POST {at}/invoke"),
        )
    };
    let call = |invoke: &str, text: &str| house.ask(invoke, json!({"args": {"text": text}}));
    let (_, rare) = made("rare", json!({"maxCallsPerMinute": 1}));
    assert_eq!(call(&rare, "x").status, 200);
    assert_eq!(call(&rare, "x").status, 429);
    let (_, short) = made("short", json!({"maxSentBytes": 20}));
    assert_eq!(call(&short, "x").status, 200);
    let refused = call(&short, &"x".repeat(20));
    assert_eq!(refused.status, 400, "{refused:?}");
    let (_, brief) = made(
        "brief",
        json!({"maxResponseBytes": 10, "responseEncoding": "text"}),
    );
    let cut = said(&call(&brief, "x"));
    assert_eq!(cut["meta"]["truncated"]["kept"], 10, "{cut}");
    for wrong in [
        json!({"maxCallsPerMinute": 0}),
        json!({"maxRetries": 11}),
        json!({"maxSentBytes": -1}),
    ] {
        assert_eq!(made("wrong", wrong).0.status, 400);
    }
}
