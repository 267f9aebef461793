//! The project below `examples/` lints without a word, passes its own tests, and its http tools work
//! against a local upstream.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use glee::app::{App, Call};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::{Value, json};

use crate::support::{Scene, json as output_json, repository, stdout, wiring};
use crate::upstream::Upstream;

fn copy(from: &Path, scene: &Scene, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let target = if to.is_empty() {
            name.clone()
        } else {
            format!("{to}/{name}")
        };
        match path.is_dir() {
            true if name == "audit" || name == "__pycache__" => {}
            true => copy(&path, scene, &target),
            false => {
                scene.write(&target, &fs::read_to_string(&path).unwrap());
            }
        }
    }
}

fn examples() -> Scene {
    let scene = Scene::new();
    copy(&repository().join("examples"), &scene, "");
    scene
}

#[test]
fn they_lint() {
    let output = examples().glee(&["lint"]);
    assert_eq!(stdout(&output), "0 errors, 0 warnings in 6 files\n");
    assert!(output.status.success());
}

#[test]
fn their_examples_pass() {
    let output = examples().glee(&["test", "--json"]);
    let report = output_json(&output);
    assert_eq!(
        (&report["passed"], &report["failed"], &report["not_run"]),
        (&json!(4), &json!(0), &json!(4)),
        "{report:#}"
    );
    assert!(output.status.success());
}

#[test]
fn the_http_ones_work_against_a_real_server() {
    let upstream = Upstream::start();
    let scene = examples();
    let port = upstream.origin().rsplit(':').next().unwrap().to_owned();
    for (tool, url, path) in [
        (
            "web_search",
            "https://api.search.brave.com/res/v1/web/search",
            "/web",
        ),
        (
            "slack_notify",
            "https://slack.com/api/chat.postMessage",
            "/api/chat.postMessage",
        ),
    ] {
        let manifest = format!(".glee/tools/{tool}/tool.yml");
        let text = fs::read_to_string(scene.root.join(&manifest)).unwrap();
        assert!(text.contains(url) && text.contains("network: true"));
        let text = text
            .replace(url, &format!("{}{path}", upstream.origin()))
            .replace(
                "network: true",
                &format!("network: {{hosts: [\"127.0.0.1:{port}\"]}}"),
            );
        scene.write(&manifest, &text);
    }
    let secrets = BTreeMap::from([
        ("BRAVE_API_KEY".to_owned(), "brave-123456".to_owned()),
        ("SLACK_BOT_TOKEN".to_owned(), "slack-123456".to_owned()),
    ]);
    let app = App::open(scene.project(), wiring(secrets, Answer::Approved)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = |tool: &str, args: Value| {
        let outcome = runtime.block_on(app.call(Call {
            tool: tool.into(),
            args: args.as_object().unwrap().clone(),
            caller: Caller {
                name: "user".into(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: std::sync::Arc::new(Waits),
            approval: None,
        }));
        outcome.result.unwrap()
    };
    let found = call("web_search", json!({"query": "rust"}));
    assert!(
        found.warnings.is_empty() && found.value[0]["title"].is_string(),
        "{found:?}"
    );
    let sent = call(
        "slack_notify",
        json!({"channel": "general", "message": "hi"}),
    );
    assert_eq!(sent.value["ok"], true);
    let seen = upstream.requests();
    assert_eq!(seen[0].query, "q=rust&count=10");
    assert_eq!(seen[0].headers["x-subscription-token"], "brave-123456");
    assert_eq!(seen[1].headers["authorization"], "Bearer slack-123456");
    assert_eq!(seen[1].body, r#"{"channel":"general","text":"hi"}"#);
}
