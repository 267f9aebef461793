//! Tools that agents make: over the real MCP surface, and reviewed at a real terminal. Tools leave files
//! behind, so that it can be seen whether they ran.

mod ceiling;
mod create;
mod review;
mod trial;

use std::fs;

use serde_json::{Value, json};

use crate::mcp::server::Pipes;
use crate::support::{GLEE, Scene, talk_on_a_terminal};

/// A project in which agents may read `src` and write `out`, and make as many tools as they like.
fn scene() -> Scene {
    scene_with(
        "security:
  max_permissions: {fs: {read: [src], write: [out]}}
  agent_tools: {per_minute: 1000}
",
    )
}

fn scene_with(config: &str) -> Scene {
    let scene = Scene::new();
    scene.write(".glee/config.yml", config);
    scene.write("src/a.txt", "inside\n");
    scene.write("out/.keep", "");
    scene
}

/// An agent at the other end of `glee mcp`.
struct Agent {
    pipes: Pipes,
    next: u64,
}

impl Agent {
    fn of(scene: &Scene) -> Agent {
        Agent {
            pipes: Pipes::open(scene, "2025-06-18"),
            next: 0,
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.pipes.ask(json!(self.next), method, params)
    }

    /// Whether it worked, and the text of the answer.
    fn call(&mut self, tool: &str, args: Value) -> (bool, String) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": args}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (result["isError"] != true, text)
    }

    fn create(&mut self, name: &str, definition: Value) -> (bool, String) {
        let args = json!({"name": name, "definition": definition});
        self.call("glee_tool_create", args)
    }

    fn create_with(&mut self, name: &str, definition: Value, files: Value) -> (bool, String) {
        let args = json!({"name": name, "definition": definition, "files": files});
        self.call("glee_tool_create", args)
    }

    /// A tool that leaves `out/NAME` behind when it runs.
    fn make_stamp(&mut self, name: &str) {
        let script = format!("#!/bin/sh\ntouch out/{name}\necho done\n");
        let made = self.create_with(name, stamp(name), json!({"run.sh": script}));
        assert!(made.0, "{}", made.1);
    }
}

/// The smallest definition there is, with these permissions.
fn plain(permissions: Value) -> Value {
    json!({
        "description": "Print a word",
        "kind": "command",
        "version": 1,
        "inputs": {"schema": {"type": "object", "additionalProperties": false}},
        "outputs": {"format": "text"},
        "exec": {"command": {"entrypoint": "printf", "args": ["fine"]}},
        "permissions": permissions,
        "approval": {"required": true, "reason": "it prints"},
    })
}

fn stamp(name: &str) -> Value {
    let mut definition = plain(json!({"fs": {"write": ["out"]}}));
    definition["exec"]["command"] = json!({"entrypoint": format!(".glee/tools/{name}/run.sh")});
    definition
}

fn manifest(scene: &Scene, name: &str) -> String {
    let path = scene.root.join(format!(".glee/tools/{name}/tool.yml"));
    fs::read_to_string(path).unwrap_or_default()
}

fn record(scene: &Scene, name: &str) -> Value {
    let path = scene.root.join(format!(".glee/reviews/{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn exists(scene: &Scene, path: &str) -> bool {
    fs::symlink_metadata(scene.root.join(path)).is_ok()
}

/// A person lets the tool run without being asked each time, which is theirs to say. It waits for review
/// again.
fn relax(scene: &Scene, name: &str) {
    let text = manifest(scene, name);
    let relaxed = text.replace("required: true", "required: false");
    assert_ne!(relaxed, text);
    scene.write(&format!(".glee/tools/{name}/tool.yml"), &relaxed);
}

/// What a person sees at a terminal of their own, and the exit code, when they type this after the question.
fn at_a_terminal(scene: &Scene, command: &str, typed: &str) -> (String, i32) {
    let command = format!("unset VISUAL; EDITOR=true {GLEE} {command}");
    let talk = [("[y/N] ", typed)];
    // There may be no question.
    let (code, screen, _) = talk_on_a_terminal(scene, &command, &talk);
    (screen.replace('\r', ""), code.unwrap())
}

fn approve(scene: &Scene, name: &str) -> String {
    let (screen, code) = at_a_terminal(scene, &format!("tools review {name} --approve"), "y\n");
    assert_eq!(code, 0, "{screen}");
    screen
}
