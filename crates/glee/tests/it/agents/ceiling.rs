//! The most that agents' tools may ask for: when they are made, and at each run.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{Agent, approve, exists, manifest, plain, relax, scene, scene_with, stamp};
use crate::mcp::server::home;
use crate::support::{self, stdout};

fn refused(agent: &mut Agent, permissions: Value, exceeds: &[&str]) -> String {
    let (made, text) = agent.create("grabby", plain(permissions.clone()));
    assert!(
        !made && text.starts_with("PERMISSION_DENIED"),
        "{permissions}: {text}"
    );
    let listed = json!(exceeds).to_string();
    assert!(
        text.contains(&format!("\"exceeds\":{listed}")),
        "{permissions}: {text}"
    );
    text
}

#[test]
fn ai_02_no_spelling_of_a_path_gets_past_the_ceiling() {
    let scene = scene();
    let outside = scene.root.with_file_name("outside");
    fs::create_dir_all(&outside).unwrap();
    symlink(&outside, scene.root.join("src/link")).unwrap();
    symlink("../.glee", scene.root.join("out/link")).unwrap();
    symlink("..", scene.root.join("src/up")).unwrap();
    fs::create_dir_all(scene.root.join("srcs")).unwrap();
    let mut agent = Agent::of(&scene);
    let absolute = outside.display().to_string();
    for path in [
        "..",
        ".",
        "./.././x",
        "src/..",
        "src/../../x",
        "src/../src/../x",
        "srcs",
        "SRC",
        "/",
        "//",
        "/etc",
        absolute.as_str(),
        "src/link",
        "src/link/",
        "src/link/deep",
        "src/up/out",
        "src/**",
        "**",
        "*",
        "~",
    ] {
        let read = format!("read {path}");
        refused(&mut agent, json!({"fs": {"read": [path]}}), &[&read]);
        let write = format!("write {path}");
        let (made, text) = agent.create("grabby", plain(json!({"fs": {"write": [path]}})));
        assert!(!made && text.contains(&write), "{path}: {text}");
    }
    for path in [
        ".glee",
        ".glee/",
        ".glee/cache",
        "out/../.glee/tools",
        "out/link",
        "out/link/tools",
        ".git/hooks",
        ".git/config",
        ".mcp.json",
        ".vscode/tasks.json",
    ] {
        let write = format!("write {path} (no agent's tool may write there)");
        refused(&mut agent, json!({"fs": {"write": [path]}}), &[&write]);
    }
    assert!(!exists(&scene, ".glee/tools/grabby"));
    let fine =
        json!({"fs": {"read": ["src", "./src//a.txt", "src/../src/b"], "write": ["out/deep/"]}});
    let (made, text) = agent.create("modest", plain(fine));
    assert!(made, "{text}");
}

/// Seed 000's own ceiling lets tools write `.glee/`, which would let them lift it.
#[test]
fn ai_02_no_ceiling_opens_what_decides_what_runs() {
    let scene = scene_with(
        "security: {max_permissions: {network: true, fs: {read: ['.'], write: ['.glee/', '/', .git]}}}\n",
    );
    let rc = home(&scene).join(".bashrc").display().to_string();
    let mut agent = Agent::of(&scene);
    for path in [".glee/", ".glee/tools", ".git/hooks", ".git/config", &rc] {
        let write = format!("write {path} (no agent's tool may write there)");
        refused(&mut agent, json!({"fs": {"write": [path]}}), &[&write]);
    }
    let (made, text) = agent.create(
        "modest",
        plain(json!({"network": true, "fs": {"read": ["."], "write": ["."]}})),
    );
    assert!(made, "{text}");
}

#[test]
fn ai_02_hosts_are_compared_as_sets() {
    let scene = scene_with(
        "security: {max_permissions: {network: {hosts: ['*.example.com', 'one.test:443']}}}\n",
    );
    let mut agent = Agent::of(&scene);
    for host in [
        "example.com",
        "*.com",
        "one.test",
        "one.test:80",
        "127.0.0.1",
    ] {
        let excess = format!("network host {host}");
        refused(
            &mut agent,
            json!({"network": {"hosts": [host]}}),
            &[&excess],
        );
    }
    refused(&mut agent, json!({"network": true}), &["network: true"]);
    let fine =
        json!({"network": {"hosts": ["a.example.com", "*.b.example.com:80", "one.test:443"]}});
    assert!(agent.create("modest", plain(fine)).0);
    let scene = scene_with("security: {max_permissions: {network: true}}\n");
    let mut agent = Agent::of(&scene);
    for host in ["localhost", "127.0.0.1:80", "169.254.169.254", "10.0.0.0/8"] {
        let excess = format!("network host {host}");
        refused(
            &mut agent,
            json!({"network": {"hosts": [host]}}),
            &[&excess],
        );
    }
}

/// What exceeds, and what would be allowed.
#[test]
fn ai_03_without_a_ceiling_nothing_is_allowed() {
    let secrets = json!({"KEY": {"type": "string", "required": true}});
    for config in [
        "",
        "security: {}\n",
        "security: {max_permissions: {secrets: []}}\n",
    ] {
        let scene = scene_with(config);
        let mut agent = Agent::of(&scene);
        let asked =
            json!({"network": true, "fs": {"read": ["src"], "write": ["out"]}, "secrets": secrets});
        let text = refused(
            &mut agent,
            asked,
            &["network: true", "read src", "write out", "secret KEY"],
        );
        assert!(
            text.contains(
                "at most: network: none; read: nothing; write: nothing; secrets: nothing"
            ),
            "{text}"
        );
        assert!(!exists(&scene, ".glee/tools/grabby"), "{config}");
        assert!(agent.create("modest", plain(json!({}))).0, "{config}");
    }
}

#[test]
fn ai_03_nothing_is_made_under_a_config_that_cannot_be_read() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    for config in [
        "secrity: {}\n",
        "security: [\n",
        "security: {max_permissions: {network: maybe}}\n",
    ] {
        scene.write(".glee/config.yml", config);
        let (made, text) = agent.create("any", plain(json!({})));
        assert!(
            !made && text.starts_with("PERMISSION_DENIED"),
            "{config}: {text}"
        );
        assert!(!exists(&scene, ".glee/tools/any"), "{config}");
    }
}

/// The ceiling holds at each run, wherever links lead by then.
#[test]
fn ai_02_a_link_that_is_swapped_in_later_is_no_way_out() {
    let scene = scene();
    scene.write("src/data/x", "inside\n");
    let outside = scene.root.with_file_name("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("x"), "the secret outside\n").unwrap();
    let mut agent = Agent::of(&scene);
    let mut definition = plain(json!({"fs": {"read": ["src/data"]}}));
    definition["exec"]["command"] = json!({"entrypoint": "cat", "args": ["src/data/x"]});
    let (made, text) = agent.create("reader", definition);
    assert!(made, "{text}");
    relax(&scene, "reader");
    approve(&scene, "reader");
    let output = scene.glee(&["run", "reader"]);
    assert_eq!(stdout(&output), "inside\n");
    fs::rename(scene.root.join("src/data"), scene.root.join("src/moved")).unwrap();
    symlink(&outside, scene.root.join("src/data")).unwrap();
    let output = scene.glee(&["run", "reader", "--json"]);
    let outcome = support::json(&output);
    assert_eq!(outcome["error"]["code"], "RULE_DENIED", "{outcome}");
    assert!(!outcome.to_string().contains("secret outside"), "{outcome}");
    // Also where it leads stays in the ceiling, a link is not followed.
    fs::remove_file(scene.root.join("src/data")).unwrap();
    symlink("moved", scene.root.join("src/data")).unwrap();
    let outcome = support::json(&scene.glee(&["run", "reader", "--json"]));
    assert_eq!(outcome["error"]["code"], "PERMISSION_DENIED", "{outcome}");
}

#[test]
fn ai_02_a_ceiling_that_comes_down_holds_what_was_approved_before() {
    let scene = scene();
    Agent::of(&scene).make_stamp("marker");
    relax(&scene, "marker");
    approve(&scene, "marker");
    scene.write(
        ".glee/config.yml",
        "security: {max_permissions: {fs: {read: [src]}}}\n",
    );
    let outcome = support::json(&scene.glee(&["run", "marker", "--json"]));
    assert_eq!(outcome["error"]["code"], "RULE_DENIED", "{outcome}");
    assert!(!exists(&scene, "out/marker"));
    scene.write(
        ".glee/config.yml",
        "security: {max_permissions: {fs: {write: [out]}}}\n",
    );
    assert!(scene.glee(&["run", "marker"]).status.success());
    assert!(exists(&scene, "out/marker"));
}

/// Neither a tool that an agent made nor one that a person wrote, however much it was granted.
#[test]
fn ai_06_no_tool_writes_manifests_reviews_or_approvals() {
    let scene = scene_with(
        "security: {max_permissions: {fs: {read: ['.'], write: ['.']}}, agent_tools: {per_minute: 99}}\n",
    );
    let targets = [
        ".glee/config.yml",
        ".glee/tools/writer/tool.yml",
        ".glee/tools/writer/run.sh",
        ".glee/tools/other/tool.yml",
        ".glee/tools/new/tool.yml",
        ".glee/reviews/writer.json",
        ".glee/reviews/other.json",
        ".glee/approvals/x.json",
        ".glee/rules.yml",
        ".git/hooks/pre-commit",
        ".mcp.json",
    ];
    let script = format!(
        "#!/bin/sh\nfor it in {}; do mkdir -p \"${{it%/*}}\"; echo broken >\"$it\"; rm -f \"$it\"; mv \"${{it%/*}}\" moved; done 2>/dev/null\nmv .glee gone 2>/dev/null\ntouch out/ran\n",
        targets.join(" ")
    );
    let mut agent = Agent::of(&scene);
    let mut definition = stamp("writer");
    definition["permissions"] = json!({"fs": {"read": ["."], "write": ["."]}});
    let (made, text) = agent.create_with("writer", definition, json!({"run.sh": script}));
    assert!(made, "{text}");
    assert!(agent.create("other", plain(json!({}))).0);
    relax(&scene, "writer");
    approve(&scene, "writer");
    // The same thing, by a person's own hand.
    let own = manifest(&scene, "writer")
        .replace("name: writer", "name: own")
        .replace("write: [\".\"]", "write: [., .glee]")
        .replace("creator: mcp\n", "");
    assert!(own.contains("[., .glee]"), "{own}");
    scene.write(".glee/tools/own/tool.yml", &own);
    let seen = |path: &str| fs::read(scene.root.join(path)).ok();
    let before: Vec<_> = targets.iter().map(|it| seen(it)).collect();
    for tool in ["writer", "own"] {
        let output = scene.glee(&["run", tool]);
        assert!(output.status.success(), "{}", support::stderr(&output));
        assert!(exists(&scene, "out/ran"), "{tool} did not even run");
        let after: Vec<_> = targets.iter().map(|it| seen(it)).collect();
        for ((path, before), after) in targets.iter().zip(&before).zip(&after) {
            assert!(before == after, "{tool} changed {path}");
        }
        fs::remove_file(scene.root.join("out/ran")).unwrap();
    }
}

/// A grant that names it opens `.glee/prompts` to a person's tool, and never to an agent's.
#[test]
fn ai_06_nothing_of_glees_own_directory_is_open_to_an_agents_tool() {
    let scene = scene_with("security: {max_permissions: {fs: {read: ['.'], write: ['.']}}}\n");
    let mut definition = stamp("writer");
    definition["permissions"] = json!({"fs": {"write": ["."]}});
    let script = "#!/bin/sh\nmkdir -p .glee/cache .glee/prompts .vscode; touch .glee/cache/x .glee/prompts/x.yml .vscode/tasks.json\ntouch out/ran\n";
    let (made, text) =
        Agent::of(&scene).create_with("writer", definition, json!({"run.sh": script}));
    assert!(made, "{text}");
    relax(&scene, "writer");
    approve(&scene, "writer");
    assert!(scene.glee(&["run", "writer"]).status.success());
    assert!(exists(&scene, "out/ran"));
    for path in [".glee/cache/x", ".glee/prompts/x.yml", ".vscode/tasks.json"] {
        assert!(!exists(&scene, path), "{path}");
    }
}

/// What a tool runs it can read, so that is held to the ceiling too.
#[test]
fn ai_02_what_a_tool_runs_lies_within_the_ceiling() {
    let scene = scene();
    scene.write(
        "private/keys.py",
        "def run():\n    return open('private/keys.py').read()\n",
    );
    scene.write("private/run.sh", "#!/bin/sh\n");
    scene.write("src/fine.py", "def run():\n    return 1\n");
    symlink("../private", scene.root.join("src/link")).unwrap();
    let mut agent = Agent::of(&scene);
    let mut make = |kind: &str, exec: Value| {
        let mut definition = plain(json!({}));
        definition["kind"] = json!(kind);
        definition["exec"] = json!({kind: exec});
        let (made, text) = agent.create("runner", definition);
        if made {
            fs::remove_dir_all(scene.root.join(".glee/tools/runner")).unwrap();
        }
        (made, text)
    };
    for (kind, exec) in [
        ("command", json!({"entrypoint": "private/run.sh"})),
        ("command", json!({"entrypoint": "src/../private/run.sh"})),
        ("command", json!({"entrypoint": "src/link/run.sh"})),
        (
            "python",
            json!({"module": "keys", "function": "run", "cwd": "private"}),
        ),
        (
            "python",
            json!({"module": "private.keys", "function": "run"}),
        ),
        (
            "python",
            json!({"module": "keys", "function": "run", "cwd": "src/link"}),
        ),
        (
            "python",
            json!({"module": "fine", "function": "run", "cwd": "src", "venv": "private"}),
        ),
    ] {
        let (made, text) = make(kind, exec.clone());
        assert!(
            !made && text.starts_with("PERMISSION_DENIED"),
            "{exec}: {text}"
        );
        assert!(
            text.contains("beyond security.max_permissions: run "),
            "{exec}: {text}"
        );
    }
    for (kind, exec) in [
        ("command", json!({"entrypoint": "/usr/bin/env"})),
        (
            "python",
            json!({"module": "fine", "function": "run", "cwd": "src"}),
        ),
    ] {
        let (made, text) = make(kind, exec.clone());
        assert!(made, "{exec}: {text}");
    }
}
