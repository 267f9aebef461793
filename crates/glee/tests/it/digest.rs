//! A digest is the same for the same tool, and another one when anything of the tool is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use glee::app::App;
use glee_core::port::Answer;

use crate::support::{Scene, wiring};

fn manifest(kind: &str, exec: &str) -> String {
    format!(
        "name: tool
description: A tool
kind: {kind}
version: 1
inputs: {{schema: {{type: object}}}}
outputs: {{format: text}}
exec: {{{exec}}}
permissions: {{network: false}}
approval: {{required: false}}
"
    )
}

fn command(entrypoint: &str) -> String {
    manifest("command", &format!("command: {{entrypoint: {entrypoint}}}"))
}

fn open(scene: &Scene) -> App {
    App::open(
        scene.project(),
        wiring(BTreeMap::new(), Answer::Denied { reason: "".into() }),
    )
    .unwrap()
}

fn digest(scene: &Scene) -> Option<String> {
    let app = open(scene);
    app.digest(&app.tools().find("tool").unwrap())
}

/// Does something, and tells whether the digest is another one afterwards.
fn changes(scene: &Scene, what: impl FnOnce()) -> bool {
    let before = digest(scene).unwrap();
    what();
    digest(scene).unwrap() != before
}

#[test]
fn the_same_tool_has_the_same_digest_everywhere() {
    let scenes = [Scene::new(), Scene::new()];
    let digests = scenes.each_ref().map(|scene| {
        scene.write(".glee/tools/tool/tool.yml", &command("./run.sh"));
        scene.write(".glee/tools/tool/data/x.txt", "x");
        scene.write("run.sh", "#!/bin/sh\n");
        digest(scene).unwrap()
    });
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0].len(), 64);
}

#[test]
fn whatever_a_tool_is_made_of_changes_its_digest() {
    let scene = Scene::new();
    scene.write(".glee/tools/tool/tool.yml", &command("./scripts/run.sh"));
    scene.write("scripts/run.sh", "#!/bin/sh\n");
    scene.write("scripts/other.sh", "#!/bin/sh\n");
    let file = |path: &'static str, text: &'static str| {
        let scene = &scene;
        move || {
            scene.write(path, text);
        }
    };
    assert!(changes(&scene, file("scripts/run.sh", "#!/bin/sh\ntrue\n")));
    assert!(!changes(
        &scene,
        file("scripts/other.sh", "#!/bin/sh\ntrue\n")
    ));
    assert!(changes(&scene, file(".glee/tools/tool/a/b.txt", "1")));
    assert!(changes(&scene, file(".glee/tools/tool/a/b.txt", "2")));
    // A command may be a python of its own, that reads these.
    assert!(changes(
        &scene,
        file(".glee/tools/tool/a/__pycache__/b.pyc", "2")
    ));
    let own = scene.root.join(".glee/tools/tool");
    assert!(changes(&scene, || fs::rename(
        own.join("a/b.txt"),
        own.join("a/c.txt")
    )
    .unwrap()));
    assert!(changes(&scene, || fs::remove_file(own.join("a/c.txt")).unwrap()));
    assert!(changes(&scene, || symlink("/etc/passwd", own.join("link")).unwrap()));
    let with_comment = command("./scripts/run.sh") + "# a remark\n";
    assert!(changes(&scene, || {
        scene.write(".glee/tools/tool/tool.yml", &with_comment);
    }));
    assert!(changes(&scene, || fs::remove_file(
        scene.root.join("scripts/run.sh")
    )
    .unwrap()));
}

#[test]
fn an_entry_that_is_a_link_is_followed() {
    let scene = Scene::new();
    scene.write(
        ".glee/tools/tool/tool.yml",
        &command(".glee/tools/tool/run.sh"),
    );
    scene.write("real.sh", "#!/bin/sh\n");
    symlink(
        "../../../real.sh",
        scene.root.join(".glee/tools/tool/run.sh"),
    )
    .unwrap();
    assert!(changes(&scene, || {
        scene.write("real.sh", "#!/bin/sh\ntrue\n");
    }));
}

#[test]
fn a_module_outside_is_part_of_the_tool() {
    let scene = Scene::new();
    let python = |module: &str| {
        let exec = format!("python: {{module: {module}, function: run}}");
        scene.write(".glee/tools/tool/tool.yml", &manifest("python", &exec));
    };
    python("one");
    scene.write("one.py", "def run(): pass\n");
    assert!(changes(&scene, || {
        scene.write("one.py", "def run(): return 1\n");
    }));
    python("package.two");
    scene.write("package/two.py", "def run(): pass\n");
    assert!(changes(&scene, || {
        scene.write("package/three.py", "X = 1\n");
    }));
    assert!(!changes(&scene, || {
        scene.write("package/__pycache__/three.pyc", "X = 1\n");
    }));
    assert!(changes(&scene, || {
        scene.write("package/__pycache__/three.sh", "true\n");
    }));
}

#[test]
fn ap_03_the_python_of_an_environment_is_part_of_the_tool() {
    let scene = Scene::new();
    let exec = "python: {module: main, function: run, venv: env}";
    scene.write(".glee/tools/tool/tool.yml", &manifest("python", exec));
    scene.write("main.py", "def run(): pass\n");
    scene.write("env/pyvenv.cfg", "home = /usr/bin\n");
    scene.write("real/python3", "1");
    scene.write("real/other", "1");
    let bin = scene.root.join("env/bin");
    fs::create_dir(&bin).unwrap();
    symlink("python3", bin.join("python")).unwrap();
    symlink("../../real/python3", bin.join("python3")).unwrap();
    assert!(changes(&scene, || {
        scene.write("env/pyvenv.cfg", "home = /tmp\n");
    }));
    assert!(changes(&scene, || {
        scene.write("real/python3", "2");
    }));
    // As the same bytes elsewhere, and as a file in the place of the link.
    scene.write("real/other", "2");
    assert!(changes(&scene, || {
        fs::remove_file(bin.join("python3")).unwrap();
        symlink("../../real/other", bin.join("python3")).unwrap();
    }));
    assert!(changes(&scene, || {
        fs::remove_file(bin.join("python3")).unwrap();
        scene.write("env/bin/python3", "#!/bin/sh\n");
    }));
}

#[test]
fn ap_03_a_link_that_is_turned_is_another_tool() {
    let scene = Scene::new();
    let own = scene.root.join(".glee/tools/tool");
    scene.write(".glee/tools/tool/tool.yml", &command("src/run.sh"));
    scene.write(".glee/tools/tool/a.sh", "#!/bin/sh\n");
    scene.write(".glee/tools/tool/b.sh", "#!/bin/sh\ntrue\n");
    scene.write("src/x", "");
    let turn = |link: &'static str, to: &'static str| {
        let link = scene.root.join(link);
        move || {
            let _ = fs::remove_file(&link);
            symlink(to, link).unwrap();
        }
    };
    turn("src/run.sh", "../.glee/tools/tool/a.sh")();
    let to_b = turn("src/run.sh", "../.glee/tools/tool/b.sh");
    assert!(changes(&scene, to_b));
    // Also where only a link behind the link is turned.
    turn("src/next", "../.glee/tools/tool/a.sh")();
    symlink("../../../src/next", own.join("link")).unwrap();
    let to_b = turn("src/next", "../.glee/tools/tool/b.sh");
    assert!(changes(&scene, to_b));
}

#[test]
fn a_tool_too_large_has_no_digest_and_nothing_waits() {
    let scene = Scene::new();
    scene.write(".glee/tools/tool/tool.yml", &command("./run.sh"));
    let own = scene.root.join(".glee/tools/tool");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        own.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(digest(&scene).is_some());
    let large = fs::File::create(own.join("large")).unwrap();
    large.set_len(65 << 20).unwrap();
    assert_eq!(digest(&scene), None);
    large.set_len(1).unwrap();
    assert!(digest(&scene).is_some());
    for at in 0..4096 {
        fs::write(own.join(at.to_string()), "").unwrap();
    }
    assert_eq!(digest(&scene), None);
}

#[test]
fn a_digest_is_made_once_for_each_reload() {
    let scene = Scene::new();
    scene.write(".glee/tools/tool/tool.yml", &command("./run.sh"));
    scene.write("run.sh", "#!/bin/sh\n");
    let app = open(&scene);
    let digest = || app.digest(&app.tools().find("tool").unwrap());
    let first = digest();
    scene.write("run.sh", "#!/bin/sh\ntrue\n");
    assert_eq!(digest(), first);
    app.reload().unwrap();
    assert_ne!(digest(), first);
    // A manifest that is broken now keeps its last good version, and the digest of that one.
    let second = digest();
    scene.write(".glee/tools/tool/tool.yml", "name: tool\n");
    app.reload().unwrap();
    assert_eq!(digest(), second);
}
