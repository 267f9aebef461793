//! Changes on disk are taken in while the project is open. Every test waits for the change itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use glee::app::App;
use glee::watch::{Change, Watching};
use glee_core::content::Body;
use glee_core::port::Answer;

use crate::support::{Scene, wiring};

const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    scene: Scene,
    app: Arc<App>,
    changes: Receiver<Change>,
    _watching: Watching,
}

impl Stage {
    /// A project that is watched by now, with the files that were there before.
    fn set(files: &[(&str, &str)]) -> Stage {
        let scene = Scene::new();
        for (path, text) in files {
            scene.write(path, text);
        }
        let wiring = wiring(BTreeMap::new(), Answer::Denied { reason: "".into() });
        let app = Arc::new(App::open(scene.project(), wiring).unwrap());
        // As a client does that lists the tools.
        for tool in app.tools().tools() {
            app.digest(tool);
        }
        let (told, changes) = channel();
        let watching = app
            .watch(move |change| {
                let _ = told.send(change.clone());
            })
            .unwrap();
        let stage = Stage {
            scene,
            app,
            changes,
            _watching: watching,
        };
        let first = tool("first", "Is there first").replace("./scripts/run.sh", "printf");
        stage.scene.write(".glee/tools/first/tool.yml", &first);
        stage.wait("somebody watches", |it| it.tools);
        stage
    }

    /// The next change of which this is true.
    fn wait(&self, what: &str, is: impl Fn(&Change) -> bool) -> Change {
        loop {
            match self.changes.recv_timeout(PATIENCE) {
                Ok(change) if is(&change) => return change,
                Ok(_) => {}
                Err(_) => panic!("nobody told that {what}"),
            }
        }
    }

    fn describes(&self, tool: &str) -> Option<String> {
        let found = self.app.tools().find(tool).ok()?;
        Some(found.description.clone())
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.scene.root.join(path)
    }
}

fn tool(name: &str, description: &str) -> String {
    format!(
        "name: {name}
description: {description}
kind: command
version: 1
inputs: {{schema: {{type: object}}}}
outputs: {{format: text}}
exec: {{command: {{entrypoint: ./scripts/run.sh}}}}
permissions: {{network: false}}
approval: {{required: false}}
"
    )
}

fn prompt(text: &str) -> String {
    format!("name: p\ndescription: A prompt\nmessages: [{{role: user, text: {text}}}]\n")
}

fn resource(text: &str) -> String {
    format!("name: r\ndescription: A resource\nuri: x://r\ntext: {text}\n")
}

const SCRIPT: (&str, &str) = ("scripts/run.sh", "#!/bin/sh\n");

#[test]
fn each_list_is_told_by_itself() {
    let stage = Stage::set(&[
        (".glee/tools/a/tool.yml", &tool("a", "one")),
        (".glee/prompts/p.yml", &prompt("one")),
        (".glee/resources/r.yml", &resource("one")),
        SCRIPT,
    ]);
    let only = |tools, prompts, resources| Change {
        tools,
        prompts,
        resources,
        problems: Vec::new(),
    };
    stage
        .scene
        .write(".glee/tools/a/tool.yml", &tool("a", "two"));
    let change = stage.wait("a tool changed", |_| true);
    assert_eq!(change, only(true, false, false));
    assert_eq!(stage.describes("a").unwrap(), "two");
    stage.scene.write(".glee/prompts/p.yml", &prompt("two"));
    let change = stage.wait("a prompt changed", |_| true);
    assert_eq!(change, only(false, true, false));
    stage.scene.write(".glee/resources/r.yml", &resource("two"));
    let change = stage.wait("a resource changed", |_| true);
    assert_eq!(change, only(false, false, true));
    let read = stage.app.read_resource("x://r").unwrap();
    assert_eq!(read.body, Body::Text("two".into()));
}

#[test]
fn a_script_outside_is_watched() {
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("a", "one")), SCRIPT]);
    let digest = || stage.app.digest(&stage.app.tools().find("a").unwrap());
    let before = digest();
    stage.scene.write("scripts/run.sh", "#!/bin/sh\necho new\n");
    stage.wait("a script changed", |it| it.tools);
    assert_ne!(digest(), before);
    // The directory goes, and another one comes under its name.
    fs::rename(stage.path("scripts"), stage.path("old")).unwrap();
    stage.wait("a script is gone", |it| it.tools);
    stage.scene.write("new/run.sh", "#!/bin/sh\necho newer\n");
    fs::rename(stage.path("new"), stage.path("scripts")).unwrap();
    stage.wait("a script came back", |it| it.tools);
    stage
        .scene
        .write("scripts/run.sh", "#!/bin/sh\necho newest\n");
    stage.wait("a script in a renamed directory changed", |it| it.tools);
}

#[test]
fn a_tool_that_is_new_has_its_script_watched() {
    let stage = Stage::set(&[]);
    stage.scene.write("scripts/run.sh", "#!/bin/sh\n");
    stage
        .scene
        .write(".glee/tools/a/tool.yml", &tool("a", "one"));
    stage.wait("there is a tool", |it| it.tools);
    stage.scene.write("scripts/run.sh", "#!/bin/sh\ntrue\n");
    stage.wait("its script changed", |it| it.tools);
}

#[test]
fn directories_may_come_later() {
    let stage = Stage::set(&[]);
    assert!(!stage.path(".glee/prompts").exists());
    stage.scene.write(".glee/prompts/p.yml", &prompt("one"));
    stage.wait("there is a prompt", |it| it.prompts);
    stage.scene.write(".glee/prompts/p.yml", &prompt("two"));
    stage.wait("the prompt changed", |it| it.prompts);
    stage.scene.write(".glee/resources/r.yml", &resource("one"));
    stage.wait("there is a resource", |it| it.resources);
    fs::remove_dir_all(stage.path(".glee/prompts")).unwrap();
    stage.wait("the prompt is gone", |it| it.prompts);
    stage.scene.write(".glee/prompts/p.yml", &prompt("three"));
    stage.wait("the prompt is back", |it| it.prompts);
}

#[test]
fn a_file_may_be_replaced_by_rename() {
    let stage = Stage::set(&[(".glee/prompts/p.yml", &prompt("one")), SCRIPT]);
    for text in ["two", "three"] {
        stage.scene.write(".glee/prompts/.p.yml.swp", &prompt(text));
        fs::rename(
            stage.path(".glee/prompts/.p.yml.swp"),
            stage.path(".glee/prompts/p.yml"),
        )
        .unwrap();
        stage.wait("the prompt was replaced", |it| it.prompts);
    }
}

#[test]
fn a_directory_may_be_renamed() {
    // Its name is wrong until the directory has it.
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("b", "one")), SCRIPT]);
    assert_eq!(stage.describes("b"), None);
    fs::rename(stage.path(".glee/tools/a"), stage.path(".glee/tools/b")).unwrap();
    stage.wait("there is a tool", |it| it.tools);
    assert_eq!(stage.describes("b").unwrap(), "one");
    stage
        .scene
        .write(".glee/tools/b/tool.yml", &tool("b", "two"));
    stage.wait("the tool changed in its new directory", |it| it.tools);
    // The directory of all tools goes away, and comes back.
    fs::rename(stage.path(".glee/tools"), stage.path(".glee/away")).unwrap();
    stage.wait("all tools are gone", |it| it.tools);
    assert_eq!(stage.describes("b"), None);
    fs::rename(stage.path(".glee/away"), stage.path(".glee/tools")).unwrap();
    stage.wait("all tools are back", |it| it.tools);
    stage
        .scene
        .write(".glee/tools/b/tool.yml", &tool("b", "three"));
    stage.wait("the tool changed after that", |it| it.tools);
}

#[test]
fn a_broken_document_keeps_the_last_good_one_and_is_told_once() {
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("a", "one")), SCRIPT]);
    stage.scene.write(".glee/tools/a/tool.yml", "name: a\nkind");
    let change = stage.wait("the tool is broken", |_| true);
    assert!(!change.tools);
    assert_eq!(change.problems.len(), 1);
    assert!(change.problems[0].starts_with(".glee/tools/a/tool.yml: "));
    assert_eq!(stage.describes("a").unwrap(), "one");
    // Another change brings the problem up again for nobody.
    stage.scene.write(".glee/prompts/p.yml", &prompt("one"));
    let change = stage.wait("there is a prompt", |it| it.prompts);
    assert!(change.problems.is_empty(), "{change:?}");
    stage
        .scene
        .write(".glee/tools/a/tool.yml", &tool("a", "two"));
    stage.wait("the tool is good again", |it| it.tools);
    assert_eq!(stage.describes("a").unwrap(), "two");
}

/// Whatever else is left in its directory.
#[test]
fn a_tool_without_its_document_is_gone() {
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("a", "one")), SCRIPT]);
    stage.scene.write(".glee/tools/a/notes.md", "how it works");
    fs::remove_file(stage.path(".glee/tools/a/tool.yml")).unwrap();
    let change = stage.wait("the tool is gone", |it| it.tools);
    assert!(change.problems[0].contains("no tool.yml"), "{change:?}");
    assert_eq!(stage.describes("a"), None);
}

#[test]
fn a_file_is_not_read_while_it_is_written() {
    let stage = Stage::set(&[(".glee/prompts/p.yml", &prompt("one"))]);
    // The first half of it is a prompt as well.
    let mut file = fs::File::create(stage.path(".glee/prompts/q.yml")).unwrap();
    file.write_all(b"name: q\ndescription: Half\nmessages: [{role: user, text: x}]\n")
        .unwrap();
    // Longer than anybody waits for quiet.
    std::thread::sleep(Duration::from_millis(250));
    file.write_all(b"title: Whole\n").unwrap();
    drop(file);
    stage.wait("there is another prompt", |it| it.prompts);
    let tools = stage.app.tools();
    assert_eq!(
        tools.find_prompt("q").unwrap().title.as_deref(),
        Some("Whole")
    );
}

/// Nor when somebody is at it as watching begins.
#[test]
fn a_file_is_not_read_at_first_while_it_is_written() {
    let scene = Scene::new();
    let wiring = wiring(BTreeMap::new(), Answer::Denied { reason: "".into() });
    let app = Arc::new(App::open(scene.project(), wiring).unwrap());
    let path = scene.write(".glee/prompts/q.yml", "");
    let (told, changes) = channel();
    let seen = app.clone();
    let watching = app.watch(move |it| {
        let prompt = seen.tools().find_prompt("q").ok();
        told.send((it.prompts, prompt.and_then(|it| it.title.clone())))
            .unwrap();
    });
    let mut file = fs::File::create(path).unwrap();
    file.write_all(b"name: q\ndescription: Half\nmessages: [{role: user, text: x}]\n")
        .unwrap();
    // Without a pause in which it could be taken for whole, beyond the time of the first look.
    for _ in 0..300 {
        file.write_all(b"# more\n").unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    file.write_all(b"title: Whole\n").unwrap();
    drop(file);
    let first = changes.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first, (true, Some("Whole".to_owned())));
    drop(watching);
}

#[test]
fn what_changed_before_anybody_watched_is_seen() {
    let scene = Scene::new();
    let wiring = wiring(BTreeMap::new(), Answer::Denied { reason: "".into() });
    let app = Arc::new(App::open(scene.project(), wiring).unwrap());
    scene.write(".glee/prompts/p.yml", &prompt("one"));
    let (told, changes) = channel();
    let _watching = app.watch(move |it| told.send(it.clone()).unwrap()).unwrap();
    assert!(changes.recv_timeout(PATIENCE).unwrap().prompts);
}

#[test]
fn looking_at_a_change_is_no_change() {
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("a", "one")), SCRIPT]);
    stage.scene.write(".glee/prompts/p.yml", &prompt("one"));
    stage.wait("there is a prompt", |it| it.prompts);
    // Time for many more looks, if there were any.
    std::thread::sleep(Duration::from_millis(200));
    let before = stage.app.tools();
    std::thread::sleep(Duration::from_millis(400));
    assert!(Arc::ptr_eq(&before, &stage.app.tools()));
}

#[test]
fn nothing_is_told_when_nothing_changed_and_nobody_watches() {
    let stage = Stage::set(&[(".glee/tools/a/tool.yml", &tool("a", "one")), SCRIPT]);
    // The same again, the audit log, and a stranger beside the script are no changes.
    stage
        .scene
        .write(".glee/tools/a/tool.yml", &tool("a", "one"));
    stage.scene.write(".glee/audit/tools.log", "{}\n");
    stage.scene.write("scripts/other.sh", "#!/bin/sh\n");
    stage.scene.write(".glee/prompts/p.yml", &prompt("one"));
    let change = stage.wait("there is a prompt", |_| true);
    assert!(change.prompts && !change.tools, "{change:?}");
    let Stage {
        scene,
        changes,
        _watching,
        ..
    } = stage;
    drop(_watching);
    scene.write(".glee/prompts/p.yml", &prompt("two"));
    // The sender is gone with the watch.
    while changes.recv_timeout(PATIENCE).is_ok() {}
    assert!(changes.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected));
}
