//! What the tools of bundles are called, by everybody: no name is another's, or becomes one.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use glee::app::{App, OnConflict, REAP_AFTER, Run, Wiring};
use glee_core::bundle::Key;
use glee_core::port::{Answer, Clock};
use serde_json::{Value, json};
use uuid::Uuid;

use super::zip::good;
use super::{House, absent, tool, user};
use crate::support::{Scene, json as printed, wiring};

fn key(bundle: Uuid, slug: &str) -> Key {
    Key {
        bundle,
        slug: slug.into(),
        version: "1".into(),
    }
}

/// A tool that can be called.
fn callable() -> Value {
    json!({"type": "http", "impl": {"urlTemplate": "http://127.0.0.1:9/"}})
}

const CONFIG: &str = "bundles: {allowed_hosts: [127.0.0.1]}\n";

/// The names that models are shown, of MCP and of an export.
fn shown(house: &House) -> Vec<String> {
    let listed = house.served.call(1, "tools/list", json!({})).message();
    let listed = listed["result"]["tools"].as_array().unwrap().clone();
    let mut names: Vec<String> = listed
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect();
    let exported = house.scene.glee(&["export", "openai"]);
    for it in printed(&exported).as_array().unwrap() {
        let name = it["function"]["name"].as_str().unwrap();
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    names.sort();
    names
}

/// `M1`: nobody gets a name that is glee's own, whoever made the bundle, and whenever.
#[test]
fn m1_no_bundle_stands_in_for_glee() {
    let scene = Scene::new();
    let id = Uuid::now_v7();
    // Made before such slugs were refused.
    for (id, slug) in [(id, "glee"), (Uuid::now_v7(), "GLEE-x")] {
        let times = r#""createdAt": "2024-05-14T13:44:00Z", "modifiedAt": "2024-06-01T09:17:10Z""#;
        let home = format!(".glee/bundles/{id}");
        scene.write(
            &format!("{home}/bundle.json"),
            &format!(r#"{{"schemaVersion": "1", "bundleID": "{id}", "slug": "{slug}", "isEnabled": true, {times}}}"#),
        );
        scene.write(
            &format!("{home}/tool@create.json"),
            &format!(
                r#"{{"schemaVersion": "1", "bundleID": "{id}", "toolID": "{}", "slug": "tool", "version": "create",
                "type": "http", "isEnabled": true, "argSchema": {{"type": "object"}},
                "impl": {{"urlTemplate": "http://127.0.0.1:9/"}}, {times}}}"#,
                Uuid::now_v7()
            ),
        );
    }
    let house = House::with(scene, CONFIG);
    let names = shown(&house);
    let own = |it: &&String| it.to_lowercase().replace('-', "_").starts_with("glee_");
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(unique, names, "no name is there twice");
    for name in names.iter().filter(own) {
        let meta = house
            .served
            .call(1, "tools/call", json!({"name": name, "arguments": {}}));
        assert!(!meta.body.contains("127.0.0.1"), "{name}: {}", meta.body);
    }
    let theirs = names.iter().filter(|it| it.contains("tool_create"));
    assert_eq!(theirs.count(), 3, "glee's own and two others: {names:?}");
    let output = house.scene.glee_with(
        &["call", "--format", "openai", "--json"],
        &Default::default(),
        r#"{"id": "c", "type": "function", "function": {"name": "glee_tool_create", "arguments": "{}"}}"#,
    );
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !told.contains("127.0.0.1") && told.contains("NOT_FOUND"),
        "{told}"
    );
    for slug in ["glee", "Glee", "GLEE", "glee-", "glee-tools", "Glee-x"] {
        let line = format!("PUT /tools/bundles/{}", Uuid::now_v7());
        let refused = house.expect(400, &line, json!({"slug": slug}));
        assert_eq!(
            refused["error"]["details"]["violations"][0]["pointer"],
            "/slug"
        );
        let (status, _) = super::exchange::posted(&house, "", &good(&[(Uuid::now_v7(), slug)]));
        assert_eq!(status, 400, "{slug}");
    }
    house.bundle("gleeful");
}

/// `M1`: what a name was shown for stays what it means, whatever else comes and goes.
#[test]
fn m1_a_name_never_comes_to_mean_another_tool() {
    let house = House::with(Scene::new(), CONFIG);
    let bundle = house.bundle("customer-relations");
    let slug = "find-every-open-invoice-of-one-customer-account";
    let small = house.bundle("f");
    let own = |names: &[String]| -> Vec<String> {
        let is_own = |it: &&String| !it.starts_with("glee_");
        names.iter().filter(is_own).cloned().collect()
    };
    let before = shown(&house);
    house.expect(
        201,
        &format!("PUT {}", tool(bundle, slug, "v2")),
        callable(),
    );
    house.expect(201, &format!("PUT {}", tool(small, "t", "1")), callable());
    let first: Vec<String> = own(&shown(&house))
        .into_iter()
        .filter(|it| !before.contains(it))
        .collect();
    assert_eq!(first.len(), 2);
    house.expect(
        201,
        &format!("PUT {}", tool(bundle, slug, "v1")),
        callable(),
    );
    house.expect(201, &format!("PUT {}", tool(small, "T", "1")), callable());
    let now = shown(&house);
    for name in &first {
        assert!(now.contains(name), "{name}: {now:?}");
        let called = house
            .served
            .call(2, "tools/call", json!({"name": name, "arguments": {}}));
        assert!(!called.body.contains("there is no tool"), "{}", called.body);
    }
    house.expect(
        204,
        &format!("DELETE {}", tool(bundle, slug, "v2")),
        Value::Null,
    );
    house.expect(
        204,
        &format!("DELETE {}", tool(small, "t", "1")),
        Value::Null,
    );
    let now = shown(&house);
    for name in &first {
        assert!(!now.contains(name), "{name}: {now:?}");
    }
}

struct Hands(Mutex<SystemTime>);

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

fn open(scene: &Scene, clock: Arc<Hands>) -> App {
    let nobody = Answer::Nobody {
        hint: String::new(),
    };
    let wiring = Wiring {
        clock,
        ..wiring(Default::default(), nobody)
    };
    App::open(scene.project(), wiring).unwrap()
}

/// A slug is its bundle's as long as anything of that is on disk: no tool is called otherwise later.
#[test]
fn k2_a_deleted_bundle_keeps_its_slug() {
    let scene = Scene::new();
    let clock = Arc::new(Hands(Mutex::new(SystemTime::now())));
    let app = open(&scene, clock.clone());
    let put = |id: Uuid, slug: &str| {
        let said = serde_json::from_value(json!({"slug": slug})).unwrap();
        app.put_bundle(id, said, &user())
    };
    let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
    put(old, "pay").unwrap();
    app.delete_bundle(old, &user()).unwrap();
    let refused = put(new, "pay").unwrap_err();
    assert_eq!(refused.kind.code(), "CONFLICT");
    assert!(refused.message.contains("deleted"), "{refused:?}");
    let archive = good(&[(new, "pay")]);
    let run = |on_conflict| app.import(&archive, on_conflict, Run::Real, &user());
    assert_eq!(run(OnConflict::Fail).unwrap_err().kind.code(), "CONFLICT");
    let arrivals = run(OnConflict::Rename).unwrap();
    assert_eq!(arrivals[0].now, Ok((new, "pay-2".to_owned())));
    assert_eq!(app.member(&key(new, "a")).unwrap().name, "pay-2.a.1");
    // It can be had back, and once it is gone for good its slug is free.
    put(old, "pay").unwrap();
    app.delete_bundle(old, &user()).unwrap();
    *clock.0.lock().unwrap() += REAP_AFTER + Duration::from_secs(2);
    assert_eq!(app.reap(&user()).unwrap(), 1);
    put(Uuid::now_v7(), "pay").unwrap();
}

/// Two bundles of one slug, as people or an older glee put them there: while both are there neither changes
/// its name, and rules can say both.
#[test]
fn k2_the_reaper_renames_nothing() {
    let scene = Scene::new();
    let clock = Arc::new(Hands(Mutex::new(SystemTime::now())));
    let app = open(&scene, clock.clone());
    let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
    for (id, slug) in [(old, "pay"), (new, "other")] {
        let said = serde_json::from_value(json!({"slug": slug})).unwrap();
        app.put_bundle(id, said, &user()).unwrap();
    }
    let tool = serde_json::from_value(absent()).unwrap();
    app.put_tool(&key(new, "t"), tool, &user()).unwrap();
    app.delete_bundle(old, &user()).unwrap();
    let path = scene.root.join(format!(".glee/bundles/{new}/bundle.json"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"other\"", "\"pay\"")).unwrap();
    app.reload().unwrap();
    let name = app.member(&key(new, "t")).unwrap().name.clone();
    assert!(name.starts_with("pay~"), "{name}");
    *clock.0.lock().unwrap() += REAP_AFTER + Duration::from_secs(2);
    assert_eq!(app.reap(&user()).unwrap(), 0);
    app.reload().unwrap();
    assert_eq!(app.member(&key(new, "t")).unwrap().name, name);
    scene.write(
        ".glee/config.yml",
        &format!("rules: [{{name: no, tools: ['{name}'], decision: deny, reason: no}}]\n"),
    );
    let output = scene.glee(&["lint"]);
    assert!(output.status.success(), "{output:?}");
}
