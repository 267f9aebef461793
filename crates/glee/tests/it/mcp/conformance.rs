//! The official conformance suite against `glee serve`, on a project in glee's own manifest format and
//! on an empty one. The binary knows nothing of either.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::clients::{node, package};
use super::server::{Served, copy};
use crate::support::{Scene, repository, stderr, stdout};

/// Every check of a revision passes, and there are as many as there should be: a server that offers
/// less is tested less.
fn all_pass(args: &[&str], passing: usize) {
    let scene = Scene::new();
    copy(&here(), &scene.root);
    let (said, failing) = run(&scene, args);
    assert!(failing.is_empty(), "{}", failing.join("\n"));
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

/// What fails without the project's tools is written down; what passes must go on passing.
#[test]
fn an_empty_project_fails_only_what_needs_tools() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let known = here().join(format!("empty-{revision}.yml"));
        let args = [
            "--requirements",
            revision,
            "--expected-failures",
            known.to_str().unwrap(),
        ];
        let (said, _) = run(&Scene::new(), &args);
        assert!(said.contains("Baseline check passed"), "{said}");
    }
}

fn here() -> PathBuf {
    repository().join("crates/glee/tests/conformance")
}

/// Runs the suite; gives what it printed, and each check that did not pass.
fn run(scene: &Scene, args: &[&str]) -> (String, Vec<String>) {
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

fn failing(results: &Path) -> Vec<String> {
    let mut failing = Vec::new();
    for entry in fs::read_dir(results).unwrap() {
        let directory = entry.unwrap().path();
        let checks = fs::read(directory.join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        for check in checks {
            if check["status"] == "FAILURE" || check["status"] == "WARNING" {
                failing.push(format!(
                    "{} {}: {} {}",
                    directory.file_name().unwrap().display(),
                    check["id"],
                    check["errorMessage"],
                    check["details"],
                ));
            }
        }
    }
    failing.sort();
    failing
}
