//! Prompts and resources of a project that is open: found, rendered, read, reloaded.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use glee::app::App;
use glee_core::content::{Block, Body};
use glee_core::outcome::FailureKind;
use glee_core::port::{Answer, Waits};
use glee_core::prompt::Role;
use serde_json::json;

use crate::support::{Scene, wiring};

fn open(scene: &Scene) -> App {
    App::open(
        scene.project(),
        wiring(BTreeMap::new(), Answer::Denied { reason: "".into() }),
    )
    .unwrap()
}

const PROMPT: &str = "\
name: greet
description: Greet somebody
arguments: [{name: who, description: Whom, required: true}]
messages: [{role: user, text: 'Hello, ${who}'}]
";

#[test]
fn a_prompt_is_found_and_rendered() {
    let scene = Scene::new();
    scene.write(".glee/prompts/greet.yml", PROMPT);
    let tools = open(&scene).tools();
    let prompt = tools.find_prompt("greet").unwrap();
    let args = json!({"who": "Ada"}).as_object().unwrap().clone();
    let rendered = prompt.render(args, &Waits).now_or_never().unwrap();
    assert_eq!(
        rendered.unwrap(),
        [(Role::User, Block::Text("Hello, Ada".into()))]
    );
    let failure = tools.find_prompt("gret").unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert_eq!(failure.hint.unwrap(), "did you mean `greet`?");
}

#[test]
fn what_is_broken_now_keeps_its_last_good_version() {
    let scene = Scene::new();
    scene.write(".glee/prompts/greet.yml", PROMPT);
    scene.write(
        ".glee/resources/one.yml",
        "name: one\ndescription: One\nuri: x://one\ntext: first\n",
    );
    let app = open(&scene);
    scene.write(".glee/prompts/greet.yml", "name: greet\nmessag");
    scene.write(".glee/prompts/other.yml", "name: other\n");
    scene.write(
        ".glee/resources/one.yml",
        "name: one\ndescription: One\nuri: glee://one\ntext: second\n",
    );
    app.reload().unwrap();
    let tools = app.tools();
    assert!(tools.find_prompt("greet").is_ok());
    assert_eq!(
        tools.find_prompt("other").unwrap_err().kind,
        FailureKind::Disabled
    );
    assert_eq!(tools.broken_prompts().count(), 2);
    assert_eq!(tools.broken_resources().count(), 1);
    let read = app.read_resource("x://one").unwrap();
    assert_eq!(read.body, Body::Text("first".into()));
    assert!(app.read_resource("glee://one").is_err());
    std::fs::remove_file(scene.root.join(".glee/prompts/greet.yml")).unwrap();
    app.reload().unwrap();
    assert_eq!(
        app.tools().find_prompt("greet").unwrap_err().kind,
        FailureKind::NotFound
    );
}

#[test]
fn resources_are_read() {
    let scene = Scene::new();
    let resource = |name: &str, rest: &str| {
        scene.write(
            &format!(".glee/resources/{name}.yml"),
            &format!("name: {name}\ndescription: It\n{rest}\n"),
        );
    };
    resource("text", "uri: 'n://{y}/{d}'\ntext: 'on ${d} of ${y}'");
    resource("exact", "uri: n://1/2\ntext: just this");
    resource(
        "bytes",
        "uri: n://bytes\nmime_type: image/png\nbase64: AAAA",
    );
    resource(
        "file",
        "uri: n://file\nmime_type: text/plain\nfile: docs/a.txt",
    );
    resource("binary", "uri: n://binary\nfile: docs/b.bin");
    resource("outside", "uri: n://outside\nfile: link");
    scene.write("docs/a.txt", "a file");
    std::fs::write(scene.root.join("docs/b.bin"), [0xff, 0]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scene.root.join("link")).unwrap();
    let app = open(&scene);
    let body = |uri: &str| app.read_resource(uri).map(|it| it.body);
    assert_eq!(body("n://x/y"), Ok(Body::Text("on y of x".into())));
    assert_eq!(body("n://1/2"), Ok(Body::Text("just this".into())));
    assert_eq!(body("n://bytes"), Ok(Body::Blob("AAAA".into())));
    assert_eq!(body("n://file"), Ok(Body::Text("a file".into())));
    assert_eq!(body("n://binary"), Ok(Body::Blob("/wA=".into())));
    let kind = |uri: &str| body(uri).unwrap_err().kind;
    assert_eq!(kind("n://outside"), FailureKind::InvalidPath);
    assert_eq!(kind("n://x/y/z"), FailureKind::NotFound);
    let read = app.read_resource("n://bytes").unwrap();
    assert_eq!(read.mime_type.as_deref(), Some("image/png"));
    assert_eq!(read.uri, "n://bytes");
}
