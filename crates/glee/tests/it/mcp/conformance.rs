//! The official conformance suite against `glee serve`, on a project in glee's own manifest format and
//! on an empty one. The binary knows nothing of either.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::clients::{node, package};
use super::server::{Served, copy};
use crate::support::{Scene, repository, stderr, stdout, updating};

/// Every check of a revision passes, and there are as many as there should be: a server that offers
/// less is tested less.
fn all_pass(args: &[&str], passing: usize) {
    let scene = Scene::new();
    copy(&here(), &scene.root);
    let (said, failing) = run(&scene, args);
    assert!(failing.is_empty(), "{failing:#?}");
    assert!(
        said.contains(&format!("Total: {passing} passed, 0 failed")),
        "{said}"
    );
}

#[test]
fn revision_2025_06_18() {
    all_pass(&["--suite", "all", "--spec-version", "2025-06-18"], 56);
}

#[test]
fn revision_2025_11_25() {
    all_pass(&["--requirements", "2025-11-25"], 83);
}

#[test]
fn revision_2026_07_28() {
    all_pass(&["--requirements", "2026-07-28"], 197);
}

/// What fails without tools is written down, in the suite's own form; what passes must go on passing.
#[test]
fn an_empty_project_fails_only_what_needs_tools() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let (_, failing) = run(&Scene::new(), &["--requirements", revision]);
        let checks: BTreeSet<String> = failing
            .iter()
            .map(|it| format!("  - {}\n", it.check))
            .collect();
        let found = format!(
            "# What a project without tools, prompts and resources cannot pass.\nserver:\n{}",
            checks.into_iter().collect::<String>()
        );
        let known = here().join(format!("empty-{revision}.yml"));
        if updating() {
            fs::write(known, found).unwrap();
        } else {
            assert_eq!(found, fs::read_to_string(known).unwrap(), "{failing:#?}");
        }
    }
}

fn here() -> PathBuf {
    repository().join("crates/glee/tests/conformance")
}

/// A check that did not pass.
#[derive(Debug)]
#[expect(dead_code, reason = "shown when a test fails")]
struct Failing {
    /// `scenario:check`
    check: String,
    why: Value,
    details: Value,
}

/// Runs the suite; gives what it printed, and each check that did not pass.
fn run(scene: &Scene, args: &[&str]) -> (String, Vec<Failing>) {
    let served = Served::open(scene);
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(node())
        .arg(package("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", &served.url()])
        .args(args)
        .arg("--output-dir")
        .arg(results.path())
        .output()
        .unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    (said, failing(results.path()))
}

/// The suite leaves a directory `server-<scenario>-<time>` for each scenario.
fn failing(results: &Path) -> Vec<Failing> {
    let mut failing = Vec::new();
    for entry in fs::read_dir(results).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().unwrap().to_str().unwrap();
        let scenario = name.strip_prefix("server-").unwrap();
        let scenario = &scenario[..scenario.len() - "-2026-07-28T00-00-00-000Z".len()];
        let checks = fs::read(directory.join("checks.json")).unwrap();
        for check in serde_json::from_slice::<Vec<Value>>(&checks).unwrap() {
            if check["status"] == "FAILURE" || check["status"] == "WARNING" {
                failing.push(Failing {
                    check: format!("{scenario}:{}", check["id"].as_str().unwrap()),
                    why: check["errorMessage"].clone(),
                    details: check["details"].clone(),
                });
            }
        }
    }
    failing
}
