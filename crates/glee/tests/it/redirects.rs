//! A person's own tool that may write the project commits in its repository, and leads git nowhere else by it.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Scene, json, stdout};

const TOOL: &str = "name: tool
description: A tool
kind: command
version: 1
inputs: {schema: {type: object}}
outputs: {format: text}
exec: {command: {entrypoint: .glee/tools/tool/run.sh, timeout_ms: 20000}}
permissions: {network: false, fs: {write: [.]}}
approval: {required: false}
";

fn git(directory: &Path, words: &[&str]) -> Output {
    Command::new("git")
        .args(words)
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .unwrap()
}

/// A repository with a commit and a tool that runs `deed.sh`.
fn repository() -> Scene {
    // Not in a scratch directory, where grants are mounted in another way.
    let scene = Scene::below(Path::new("/var/tmp"));
    scene.write(".glee/tools/tool/tool.yml", TOOL);
    let run = "#!/bin/sh\ncd \"$(dirname \"$0\")/../../..\" && exec sh deed.sh\n";
    scene.write(".glee/tools/tool/run.sh", run);
    scene.write("a.txt", "one\n");
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.com"],
        &["add", "a.txt"],
        &["commit", "-q", "-m", "first"],
    ] {
        assert!(git(&scene.root, words).status.success(), "{words:?}");
    }
    scene
}

fn run(scene: &Scene, deed: &str) -> Output {
    scene.write("deed.sh", deed);
    scene.glee(&["--json", "run", "tool"])
}

#[test]
fn a_tool_commits() {
    let scene = repository();
    let other = scene.root.with_file_name("other");
    let deed = "set -e; echo two > a.txt; git add a.txt; git commit -qm second; git checkout -qb side; git mv a.txt b.txt
        git commit -qm third; git checkout -q main; git merge -q side; git pack-refs --all; git gc -q; git log --oneline | wc -l";
    assert_eq!(json(&run(&scene, deed))["value"], "3\n");
    let add = ["worktree", "add", "-q", "-b", "x", other.to_str().unwrap()];
    assert!(git(&scene.root, &add).status.success());
    let deed = "set -e; git commit -q --allow-empty -m more; git log --oneline | wc -l";
    assert_eq!(json(&run(&scene, deed))["value"], "4\n");
    assert!(git(&other, &["status"]).status.success());
}

/// What a person's next git runs is not decided by a tool.
#[test]
fn git_is_not_led_to_another_configuration() {
    let scene = repository();
    let other = scene.root.with_file_name("other");
    let add = ["worktree", "add", "-q", "-b", "x", other.to_str().unwrap()];
    assert!(git(&scene.root, &add).status.success());
    let says = ["config", "extensions.worktreeConfig", "true"];
    assert!(git(&scene.root, &says).status.success());
    let ran = scene.root.join("ran");
    let evil = format!("touch {}; false", ran.display());
    let prepare = format!(
        "rm -rf evil; cp -r .git evil && git config -f evil/config core.fsmonitor '{evil}' || exit 9"
    );
    let own = "cp evil/config .git/$it; mv -f evil/config .git/$it; ln -f evil/config .git/$it";
    let common = "echo $PWD/evil > .git/$it; mkdir .git/x; echo $PWD/evil > .git/x/y; mv -f .git/x/y .git/$it; sleep 30";
    let moved = "mv .git/worktrees/other .git/aside; mv .git/worktrees .git/aside; mv .git aside; \
        mkdir -p .git/worktrees/other; rm -f .git/worktrees/other/$it; echo $PWD/evil > .git/worktrees/other/$it";
    for (it, deed) in [
        ("commondir", common),
        ("config.worktree", own),
        ("worktrees/other/commondir", common),
        ("worktrees/other/config.worktree", own),
        ("commondir", moved),
        ("config.worktree", moved),
    ] {
        let started = std::time::Instant::now();
        let deed = deed.replace("sleep 30", if it == "commondir" { "sleep 30" } else { "" });
        let told = run(&scene, &format!("{prepare}\nit={it}\n{deed}\ntrue"));
        let code = json(&told)["error"]["code"].clone();
        let stopped = it == "commondir" && deed == common;
        let expected = if stopped {
            "PERMISSION_DENIED".into()
        } else {
            serde_json::Value::Null
        };
        assert_eq!(code, expected, "{it}: {}", stdout(&told));
        assert!(started.elapsed().as_secs() < 20, "{it}");
        for directory in [&scene.root, &other] {
            let status = git(directory, &["status", "--short"]);
            // What it moves may be broken, and still leads nowhere.
            let is_whole = status.status.success() || (deed == moved && *directory == other);
            assert!(is_whole, "{it}: {status:?}");
            assert!(!ran.exists(), "{it}");
        }
    }
    assert!(!scene.root.join(".git/commondir").exists());
    assert!(scene.root.join(".git/commondir.refused").exists());
}
