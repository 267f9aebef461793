//! Real clients list and call tools, over both transports. Their scripts are in `tests/clients`; each
//! takes one job, makes one session, and prints one report.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::server::{ASKING, Served, home};
use crate::support::{GLEE, Scene, repository, stderr, stdout};

/// A tool that prints what it is told to.
fn printer(name: &str, outputs: &str, printed: &str) -> String {
    format!(
        "name: {name}
description: Print something
kind: command
version: 1
inputs: {{schema: {{type: object, additionalProperties: false, properties: {{}}}}}}
outputs: {outputs}
exec: {{command: {{entrypoint: printf, args: ['%s', '{printed}']}}}}
permissions: {{}}
approval: {{required: false}}
"
    )
}

/// What the tools print, and what clients must see of it. Values that are no objects are wrapped,
/// because clients of the older revisions refuse them.
fn tools() -> Vec<(&'static str, String, Value)> {
    let number = "{format: json, schema: {type: integer}}";
    let object = "{format: json, schema: {type: object, properties: {a: {type: integer}}}}";
    vec![
        (
            "a_number",
            printer("a_number", number, "42"),
            json!({"result": 42}),
        ),
        (
            "an_object",
            printer("an_object", object, r#"{"a": 1}"#),
            json!({"a": 1}),
        ),
        (
            "a_list",
            printer("a_list", "{format: json}", "[1, 2]"),
            json!({"result": [1, 2]}),
        ),
        (
            "words",
            printer("words", "{format: text}", "some words"),
            Value::Null,
        ),
        // Gemini takes a text that is JSON for structured content, and refuses it unless it is an
        // object.
        (
            "a_truth",
            printer("a_truth", "{format: text}", "true"),
            json!({"result": "true"}),
        ),
        ("asking", ASKING.to_owned(), Value::Null),
    ]
}

fn scene() -> Scene {
    let scene = Scene::new();
    for (name, manifest, _) in tools() {
        scene.write(&format!(".glee/tools/{name}/tool.yml"), &manifest);
    }
    scene
}

/// How a client reaches the server.
fn over_stdio(scene: &Scene) -> Value {
    // The SDKs start a server with their own idea of an environment, so the root is an argument.
    json!({"command": [GLEE, "mcp", "--root", scene.root]})
}

fn over_http(served: &Served) -> Value {
    let token = served.token.as_deref().unwrap();
    json!({"url": served.url(), "headers": {"Authorization": format!("Bearer {token}")}})
}

/// One session over each transport, and whether the client saw everything as it is.
fn check(client: impl Fn(&Scene, Value) -> Value, revision: Option<&str>) {
    let scene = scene();
    let served = Served::guarded(&scene);
    for mut job in [over_stdio(&scene), over_http(&served)] {
        job["calls"] = tools().iter().map(|(name, ..)| json!([name, {}])).collect();
        job["answer"] = json!({"name": "Ada"});
        let report = client(&scene, job);
        if let Some(revision) = revision {
            assert_eq!(report["protocol"], revision);
        }
        for (at, (name, _, structured)) in tools().into_iter().enumerate() {
            let listed = report["tools"].as_array().unwrap();
            assert!(listed.iter().any(|it| it["name"] == name), "{listed:?}");
            check_result(name, &structured, &report["results"][at]);
        }
    }
}

fn check_result(name: &str, structured: &Value, result: &Value) {
    assert_ne!(result["isError"], true, "{name}: {result}");
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match structured {
        Value::Null => {
            let words = if name == "asking" {
                "Hello, Ada!"
            } else {
                "some words"
            };
            assert_eq!(text, words, "{name}: {result}");
            assert!(
                result["structuredContent"].is_null() || result["structuredContent"].is_object()
            );
        }
        structured => {
            // Some clients show the model only one of the two, so they say the same.
            assert_eq!(&result["structuredContent"], structured, "{name}: {result}");
            assert_eq!(
                &serde_json::from_str::<Value>(text).unwrap(),
                structured,
                "{name}: {result}"
            );
        }
    }
}

#[test]
fn python_sdk() {
    check(
        |_, job| python(with(job, "mode", "auto")),
        Some("2026-07-28"),
    );
}

#[test]
fn python_sdk_legacy() {
    check(
        |_, job| python(with(job, "mode", "legacy")),
        Some("2025-11-25"),
    );
}

#[test]
fn typescript_sdk_1() {
    check(|_, job| javascript("sdk1.mjs", job), None);
}

#[test]
fn typescript_sdk_2() {
    check(
        |_, job| javascript("sdk2.mjs", with(job, "mode", "auto")),
        Some("2026-07-28"),
    );
}

#[test]
fn typescript_sdk_2_legacy() {
    check(
        |_, job| javascript("sdk2.mjs", with(job, "mode", "legacy")),
        Some("2025-11-25"),
    );
}

/// The inspector makes one request for each command, and does not answer questions.
#[test]
fn inspector() {
    let scene = scene();
    let served = Served::guarded(&scene);
    let token = format!("Authorization: Bearer {}", served.token.as_deref().unwrap());
    let root = scene.root.to_str().unwrap();
    let url = served.url();
    for target in [
        vec!["--", GLEE, "mcp", "--root", root],
        vec!["--protocol-era", "auto", "--header", &token, "--", &url],
    ] {
        let inspect = |args: &[&str]| {
            let output = Command::new(node())
                .arg(package(
                    "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
                ))
                .args(["--cli", "--quiet", "--format", "json"])
                .args(args)
                .args(&target)
                .env("HOME", home(&scene))
                .output()
                .unwrap();
            report(&output)["result"].clone()
        };
        // Strict: the schemas must be ones that every model provider accepts.
        let listed = inspect(&["--method", "tools/list", "--strict"]);
        for (name, _, structured) in tools() {
            let tools = listed["tools"].as_array().unwrap();
            assert!(tools.iter().any(|it| it["name"] == name), "{listed}");
            if name == "a_number" || name == "words" {
                let result = inspect(&["--method", "tools/call", "--tool-name", name]);
                check_result(name, &structured, &result);
            }
        }
    }
}

fn with(mut job: Value, key: &str, value: &str) -> Value {
    job[key] = json!(value);
    job
}

fn python(job: Value) -> Value {
    let output = Command::new(installed("python/bin/python"))
        .arg(repository().join("crates/glee/tests/clients/sdk.py"))
        .arg(job.to_string())
        .output()
        .unwrap();
    report(&output)
}

fn javascript(script: &str, job: Value) -> Value {
    // Read from stdin, a module finds the packages of the working directory, not of its own.
    let script = repository().join("crates/glee/tests/clients").join(script);
    let output = Command::new(node())
        .args(["--input-type=module", "-"])
        .arg(job.to_string())
        .current_dir(installed("npm"))
        .stdin(Stdio::from(File::open(script).unwrap()))
        .output()
        .unwrap();
    report(&output)
}

fn report(output: &Output) -> Value {
    let said = || format!("{}{}", stdout(output), stderr(output));
    assert!(output.status.success(), "{}", said());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {}", said()))
}

pub(super) fn node() -> PathBuf {
    installed("node/bin/node")
}

/// A file of an npm package.
pub(super) fn package(path: &str) -> PathBuf {
    installed(&format!("npm/node_modules/{path}"))
}

/// Something that `scripts/test` installs.
pub(crate) fn installed(path: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = target.parent().unwrap().join("clients").join(path);
    assert!(
        path.exists(),
        "{} is not there; scripts/test installs it",
        path.display()
    );
    path
}
