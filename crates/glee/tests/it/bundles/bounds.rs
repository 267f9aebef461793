//! What clients may cost: of time, of memory and of the lock, whatever they send.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use glee::app::{OnConflict, Run};
use serde_json::{Value, json};
use uuid::Uuid;

use super::zip::{Raw, bundle, good, tool, zip};
use super::{House, absent, open, said, user};
use crate::mcp::server::eventually;
use crate::support::{Scene, stderr};

const ONE: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af101);

/// Bundles on disk, one for each of these slugs.
fn furnish(scene: &Scene, slugs: impl Iterator<Item = String>) {
    for slug in slugs {
        let id = Uuid::now_v7();
        let times = r#""createdAt": "2024-05-14T13:44:00Z", "modifiedAt": "2024-06-01T09:17:10Z""#;
        scene.write(
            &format!(".glee/bundles/{id}/bundle.json"),
            &format!(r#"{{"schemaVersion": "1", "bundleID": "{id}", "slug": "{slug}", "isEnabled": true, {times}}}"#),
        );
    }
}

/// `IM-02`: how long an import takes does not grow with what is there and what comes, multiplied.
#[test]
fn im_02_names_that_are_taken_cost_little() {
    let scene = Scene::new();
    furnish(&scene, std::iter::once("x".to_owned()));
    furnish(&scene, (2..=200).map(|it| format!("x-{it}")));
    let app = open(&scene, Default::default());
    let many: Vec<Raw> = (0..40)
        .map(|_| bundle(Uuid::now_v7(), "x"))
        .map(|it| Raw::stored(&it.0, &it.1))
        .collect();
    let began = Instant::now();
    let arrivals = app.import(&zip(&many), OnConflict::Rename, Run::Real, &user());
    let arrivals = arrivals.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    for (arrival, number) in arrivals.iter().zip(201..) {
        assert_eq!(arrival.now.as_ref().unwrap().1, format!("x-{number}"));
    }
}

/// A dry run neither waits for whoever writes nor keeps anybody waiting, and leaves nothing behind.
#[test]
fn k6_a_dry_run_takes_no_lock_and_writes_nothing() {
    let scene = Scene::new();
    let archive = scene.root.join("one.zip");
    fs::write(&archive, good(&[(ONE, "one")])).unwrap();
    let output = scene.glee(&["bundle", "import", "one.zip", "--dry-run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!scene.root.join(".glee/bundles").exists());

    furnish(&scene, std::iter::once("one".to_owned()));
    let app = open(&scene, Default::default());
    let lock = fs::File::create(scene.root.join(".glee/bundles/.lock")).unwrap();
    lock.lock().unwrap();
    let arrivals = app.import(
        &fs::read(archive).unwrap(),
        OnConflict::Rename,
        Run::Dry,
        &user(),
    );
    assert_eq!(arrivals.unwrap()[0].now, Ok((ONE, "one-2".to_owned())));
}

/// There are only so many bundles, however they come.
#[test]
fn there_are_only_so_many_bundles() {
    let house = House::with(Scene::new(), "bundles: {most_bundles: 2}\n");
    let id = house.bundle("a");
    let body = json!({"slug": "more"});
    let archive = good(&[(ONE, "one"), (Uuid::now_v7(), "two")]);
    let import = |archive: &[u8]| {
        house.served.rest_bytes_of(
            "POST /tools/bundles/import",
            &house.owner,
            "application/zip",
            archive,
        )
    };
    let refused = import(&archive);
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(!house.directory(ONE).exists());
    house.bundle("b");
    let line = format!("PUT /tools/bundles/{ONE}");
    let refused = house.expect(429, &line, body);
    let told = refused["error"]["message"].as_str().unwrap();
    assert!(told.contains("2 are the most"), "{told}");
    assert!(!house.directory(ONE).exists());
    // One that is there can still change.
    house.expect(
        200,
        &format!("PUT /tools/bundles/{id}"),
        json!({"slug": "a", "displayName": "A"}),
    );
}

/// `IM-02`: what is wrong is told in a few words, however much is wrong.
#[test]
fn im_02_few_faults_are_told() {
    let scene = Scene::new();
    let app = open(&scene, Default::default());
    let tags = json!({"tags": vec![","; 60_000]});
    let headers: serde_json::Map<String, Value> = (0..10_000)
        .map(|it| (format!("a b {it}"), "x".into()))
        .collect();
    let headers =
        json!({"type": "http", "impl": {"urlTemplate": "https://a.example/", "headers": headers}});
    let long = json!({"impl": {"goFunc": "a", "x".repeat(500_000): 1}});
    for wrong in [tags, headers, long] {
        let mut files = vec![bundle(ONE, "one")];
        files.extend((0..5).map(|it| tool(ONE, &format!("t{it}"), wrong.clone())));
        let entries: Vec<Raw> = files.iter().map(|it| Raw::stored(&it.0, &it.1)).collect();
        let refused = app.import(&zip(&entries), OnConflict::Fail, Run::Real, &user());
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind.code(), "INVALID_INPUT");
        let told = refused.details["violations"].as_array().unwrap();
        assert!(!told.is_empty() && told.len() <= 101, "{}", told.len());
        assert!(
            refused.message.len() < 64 << 10,
            "{}",
            refused.message.len()
        );
        assert!(serde_json::to_string(told).unwrap().len() < 64 << 10);
        let put = serde_json::from_slice(&files[1].1).map(|mut it: Value| {
            it.as_object_mut().unwrap().remove("schemaVersion");
            it["slug"] = "a".into();
            it
        });
        let put = serde_json::from_value(put.unwrap()).unwrap();
        let key = glee_core::bundle::Key {
            bundle: ONE,
            slug: "a".into(),
            version: "1".into(),
        };
        let refused = app.put_tool(&key, put, &user()).unwrap_err();
        assert!(
            refused.message.len() < 64 << 10,
            "{}",
            refused.message.len()
        );
    }
}

/// A server that is sent all that stays small.
#[test]
fn im_02_a_server_that_tells_faults_stays_small() {
    let house = House::new();
    let peak = || -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", house.served.child.id())).unwrap();
        let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap();
        let kilobytes = line.split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() / 1024
    };
    let before = peak();
    let mut files = vec![bundle(ONE, "one")];
    let tags = json!({"tags": vec![","; 200_000]});
    files.extend((0..10).map(|it| tool(ONE, &format!("t{it}"), tags.clone())));
    let entries: Vec<Raw> = files.iter().map(|it| Raw::stored(&it.0, &it.1)).collect();
    let line = "POST /tools/bundles/import";
    let reply = house
        .served
        .rest_bytes_of(line, &house.owner, "application/zip", &zip(&entries));
    assert_eq!(reply.status, 400);
    assert!(reply.body.len() < 64 << 10, "{}", reply.body.len());
    let after = peak();
    assert!(after - before < 64, "{before} MiB, then {after} MiB");
}

/// A request whose body does not come. Whoever begins to read it says so.
fn begun(house: &House, line: &str, token: &str, kind: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&house.served.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        house.served.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn answered(stream: &mut TcpStream) -> String {
    let mut told = String::new();
    let mut buffer = [0; 4096];
    while !told.contains("\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => told += &String::from_utf8_lossy(&buffer[..count]),
        }
    }
    told
}

/// Whoever may not do something is told so before anything of it is read, wherever it is.
#[test]
fn scopes_are_asked_for_before_bodies() {
    let house = House::new();
    let none = house.token("none", &["invoke_tool"]);
    let reader = house.token("reader", &["read_registry"]);
    let document = said(
        &house
            .served
            .rest("GET /openapi.json", "", &[], &Value::Null),
    );
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, about) in operations.as_object().unwrap() {
            let Some(scope) = about["x-scope"].as_str() else {
                assert!(["/healthz", "/readyz"].contains(&path.as_str()), "{path}");
                continue;
            };
            // Whoever asked sees what they asked.
            if scope == "approve" && method == "get" && path.starts_with("/approvals") {
                continue;
            }
            seen += 1;
            let token = if scope == "invoke_tool" {
                &reader
            } else {
                &none
            };
            let path = path.replace(['{', '}'], "!") + "?no=such&dryRun=maybe";
            let line = format!("{} {path}", method.to_uppercase());
            let told = answered(&mut begun(&house, &line, token, "text/plain"));
            assert!(told.starts_with("HTTP/1.1 403"), "{line}: {told}");
        }
    }
    assert!(seen > 15, "{seen}");
    // Both that it needs.
    let approver = house.token("approver", &["approve"]);
    let line = "POST /reviews/x/edit";
    let told = answered(&mut begun(&house, line, &approver, "text/plain"));
    assert!(told.starts_with("HTTP/1.1 403"), "{told}");
}

/// Archives are large, so few come in at once.
#[test]
fn only_so_many_archives_come_in_at_once() {
    let house = House::new();
    let line = "POST /tools/bundles/import";
    let mut begun: Vec<TcpStream> = (0..4)
        .map(|_| begun(&house, line, &house.owner, "application/zip"))
        .collect();
    for stream in &mut begun {
        let told = answered(stream);
        assert!(told.starts_with("HTTP/1.1 100"), "{told}");
    }
    let import = || {
        let archive = good(&[(ONE, "one")]);
        house
            .served
            .rest_bytes_of(line, &house.owner, "application/zip", &archive)
    };
    let reply = import();
    assert_eq!(reply.status, 429, "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    assert!(!house.directory(ONE).exists());
    drop(begun.pop());
    eventually("there is room again", || import().status == 200);
}

/// What is in a bundle fits in an archive of it.
#[test]
fn k6_a_bundle_can_always_be_exported() {
    let scene = Scene::new();
    let home = format!(".glee/bundles/{ONE}");
    let times = r#""createdAt": "2024-05-14T13:44:00Z", "modifiedAt": "2024-06-01T09:17:10Z""#;
    scene.write(
        &format!("{home}/bundle.json"),
        &format!(r#"{{"schemaVersion": "1", "bundleID": "{ONE}", "slug": "one", "isEnabled": true, {times}}}"#),
    );
    for number in 0..998 {
        scene.write(
            &format!("{home}/t{number}@1.json"),
            &format!(
                r#"{{"schemaVersion": "1", "bundleID": "{ONE}", "toolID": "018faf50-b7b6-7a01-9a05-a22a6e0af199",
                "slug": "t{number}", "version": "1", "type": "go", "isEnabled": true, "argSchema": {{"type": "object"}},
                "impl": {{"goFunc": "x"}}, {times}}}"#
            ),
        );
    }
    let app = open(&scene, Default::default());
    let put = |slug: &str| {
        let key = glee_core::bundle::Key {
            bundle: ONE,
            slug: slug.into(),
            version: "1".into(),
        };
        app.put_tool(&key, serde_json::from_value(absent()).unwrap(), &user())
    };
    put("last").unwrap();
    app.export(&[ONE]).unwrap();
    let refused = put("more").unwrap_err();
    assert!(
        refused.message.contains("999") && refused.message.contains("archive"),
        "{refused:?}"
    );
    assert!(!scene.root.join(format!("{home}/more@1.json")).exists());
    // One that became so large in another way is not told to be smaller in a way that it cannot be.
    fs::copy(
        scene.root.join(format!("{home}/t1@1.json")),
        scene.root.join(format!("{home}/more@1.json")),
    )
    .unwrap();
    let text = fs::read_to_string(scene.root.join(format!("{home}/more@1.json"))).unwrap();
    scene.write(
        &format!("{home}/more@1.json"),
        &text.replace("\"t1\"", "\"more\""),
    );
    app.reload().unwrap();
    let refused = app.export(&[ONE]).unwrap_err();
    let hint = refused.hint.unwrap_or_default();
    assert!(hint.contains("another bundle"), "{hint}");
}
