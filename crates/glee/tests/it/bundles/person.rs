//! Bundles at the terminal: where archives come from and go to, and what people are told.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;

use super::zip::{Raw, bundle, good, tool, zip};
use super::{House, open, user};
use crate::support::{GLEE, Scene, json as printed, stderr, stdout};

const ONE: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af101);

const HELLO: &str = "\
name: one
description: Say hello
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false}}
outputs: {format: text}
exec: {command: {entrypoint: /bin/echo}}
permissions: {network: false}
approval: {required: false}
";

/// A project with one bundle, which has two tools.
fn furnished() -> Scene {
    let scene = Scene::new();
    let archive = scene.root.join("one.zip");
    fs::write(&archive, good(&[(ONE, "one")])).unwrap();
    let output = scene.glee(&["bundle", "import", "one.zip"]);
    assert!(output.status.success(), "{}", stderr(&output));
    scene
}

/// An export goes where it is told, and takes nothing's place that is no file.
#[test]
fn k6_an_export_follows_links_and_spares_devices() {
    let scene = furnished();
    let archive = |name: &str| fs::read(scene.root.join(name)).unwrap();
    let export = |name: &str| {
        let output = scene.glee(&["bundle", "export", "one", "-o", name]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    };
    export("plain.zip");
    let whole = archive("plain.zip");
    assert!(whole.starts_with(b"PK"));
    // A link, to a file that is there and to one that is not.
    fs::write(scene.root.join("there.zip"), "before").unwrap();
    for (link, target) in [("a.zip", "there.zip"), ("b.zip", "new.zip")] {
        symlink(target, scene.root.join(link)).unwrap();
        export(link);
        let found = fs::symlink_metadata(scene.root.join(link)).unwrap();
        assert!(found.is_symlink(), "{link}");
        assert_eq!(archive(target), whole, "{link}");
    }
    // A pipe that somebody reads.
    let pipe = scene.root.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let read = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    export("pipe");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(read.join().unwrap(), whole);
    // What a shell hands over.
    let command =
        format!("{GLEE} bundle export one -o >(cat > caught.zip; mv caught.zip done.zip)");
    let status = Command::new("bash")
        .args(["-c", &command])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    crate::mcp::server::eventually("it came", || scene.root.join("done.zip").exists());
    assert_eq!(archive("done.zip"), whole);
    export("/dev/null");
    let null = fs::symlink_metadata("/dev/null").unwrap();
    assert!(null.file_type().is_char_device());
}

/// `IM-05`: what is said of a bundle leaves with it, so no secret may stand there either.
#[test]
fn im_05_no_secret_leaves_with_a_bundle() {
    let scene = Scene::new();
    scene.write(".glee/config.yml", "bundles: {secrets: [API_KEY]}\n");
    let secrets = BTreeMap::from([("API_KEY".to_owned(), "s3cr3t-v4lue-77".to_owned())]);
    let app = open(&scene, secrets);
    for (slug, said) in [
        (
            "a",
            json!({"slug": "a", "displayName": "of s3cr3t-v4lue-77"}),
        ),
        ("b", json!({"slug": "b", "description": "s3cr3t-v4lue-77"})),
    ] {
        let id = Uuid::now_v7();
        let said = serde_json::from_value(said).unwrap();
        app.put_bundle(id, said, &user()).unwrap();
        let refused = app.export(&[id]).unwrap_err();
        assert_eq!(refused.kind.code(), "PERMISSION_DENIED", "{slug}");
        assert!(!refused.message.contains("s3cr3t"), "{refused:?}");
    }
}

/// `M9`: what cannot be called is listed only to those who ask for it, and said to be so.
#[test]
fn m9_a_list_shows_what_can_be_used() {
    let scene = Scene::new();
    scene.write(
        ".glee/config.yml",
        "bundles: {allowed_hosts: [127.0.0.1]}\n",
    );
    scene.write(".glee/tools/one/tool.yml", HELLO);
    let http = json!({"type": "http", "impl": {"urlTemplate": "http://127.0.0.1:9/"}});
    let two = Uuid::now_v7();
    let files = [
        bundle(ONE, "here"),
        tool(ONE, "on", http.clone()),
        tool(ONE, "off", http.clone()),
        tool(ONE, "broken", json!({})),
        bundle(two, "gone"),
        tool(two, "was", http),
    ];
    let archive = zip(&files.map(|it| Raw::stored(&it.0, &it.1)));
    fs::write(scene.root.join("all.zip"), archive).unwrap();
    for words in [
        ["bundle", "import", "all.zip"],
        ["bundle", "enable", "here.on.1"],
        ["bundle", "enable", "here.broken.1"],
        ["bundle", "enable", "gone.was.1"],
    ] {
        let output = scene.glee(&words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }
    open(&scene, BTreeMap::new())
        .delete_bundle(two, &user())
        .unwrap();
    let states = |words: &[&str]| -> BTreeMap<String, String> {
        let listed = printed(&scene.glee(words));
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let listed = listed.as_array().unwrap().iter();
        listed
            .map(|it| (text(it, "name"), text(it, "state")))
            .collect()
    };
    let named = |names: &[(&str, &str)]| -> BTreeMap<String, String> {
        let own = names.iter().map(|it| (it.0.to_owned(), it.1.to_owned()));
        own.collect()
    };
    let usable = named(&[("here.on.1", "usable"), ("one", "usable")]);
    assert_eq!(states(&["list", "--json"]), usable);
    let all = named(&[
        ("gone.was.1", "disabled"),
        ("here.broken.1", "broken"),
        ("here.off.1", "disabled"),
        ("here.on.1", "usable"),
        ("one", "usable"),
    ]);
    assert_eq!(states(&["list", "--all", "--json"]), all);
    let listed = stdout(&scene.glee(&["list"]));
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let listed = stdout(&scene.glee(&["list", "--all"]));
    assert_eq!(listed.lines().count(), 5, "{listed}");
    assert_eq!(listed.matches("(disabled").count(), 2, "{listed}");
}

/// `K5`: a tool that takes the place of another one was never called yet.
#[test]
fn k5_a_new_tool_was_never_called() {
    let house = House::with(Scene::new(), "bundles: {allowed_hosts: [127.0.0.1]}\n");
    let id = house.bundle("b");
    let at = super::tool(id, "t", "1");
    let put =
        json!({"type": "http", "impl": {"urlTemplate": "http://127.0.0.1:9/", "maxRetries": 0}});
    house.expect(201, &format!("PUT {at}"), put.clone());
    let call = || drop(house.ask(&format!("POST {at}/invoke"), json!({"args": {}})));
    let count =
        || house.expect(200, &format!("GET {at}"), Value::Null)["usage"]["callCount"].clone();
    call();
    call();
    assert_eq!(count(), 2);
    // Also when it is switched, which does not make it another one.
    house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": false}));
    house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": true}));
    assert_eq!(count(), 2);
    house.expect(204, &format!("DELETE {at}"), Value::Null);
    house.expect(201, &format!("PUT {at}"), put);
    assert_eq!(count(), Value::Null);
    call();
    assert_eq!(count(), 1);
}

/// The audit tells of an import that took place, and of no other.
#[test]
fn an_import_that_fails_is_not_recorded() {
    let scene = furnished();
    let recorded = || {
        let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
        log.matches("import bundle").count()
    };
    assert_eq!(recorded(), 1);
    let two = Uuid::now_v7();
    let large = json!({"argSchema": {"type": "object", "description": "x".repeat(200_000)}});
    let files = [bundle(two, "two"), tool(two, "large", large)];
    let archive = zip(&files.map(|it| Raw::stored(&it.0, &it.1)));
    fs::write(scene.root.join("two.zip"), archive).unwrap();
    // The disk takes no file of more than 64 KiB.
    let command = format!("ulimit -f 64; trap '' XFSZ; exec {GLEE} bundle import two.zip");
    let output = Command::new("bash")
        .args(["-c", &command])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .output()
        .unwrap();
    assert!(!output.status.success() && !stderr(&output).is_empty());
    assert_eq!(recorded(), 1);
    let output = scene.glee(&["bundle", "import", "two.zip"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(recorded(), 2);
}

/// A name that a tool and a bundle have: it is told which of them was meant.
#[test]
fn a_switch_says_what_it_switched() {
    let scene = furnished();
    scene.write(".glee/tools/one/tool.yml", HELLO);
    let output = scene.glee(&["bundle", "disable", "one"]);
    let told = stderr(&output);
    assert!(
        told.contains("the tool `one` is disabled") && told.contains(&ONE.to_string()),
        "{told}"
    );
    let output = scene.glee(&["bundle", "disable", &ONE.to_string(), "--json"]);
    assert_eq!(printed(&output)["kind"], "bundle");
    let output = scene.glee(&["bundle", "enable", &ONE.to_string()]);
    let told = stderr(&output);
    assert!(told.contains("the bundle `one` is enabled"), "{told}");
}

/// What came is told by the names that it has.
#[test]
fn an_import_tells_the_names_of_its_tools() {
    let scene = furnished();
    let output = scene.glee(&["bundle", "import", "one.zip", "--on-conflict", "rename"]);
    let told = stdout(&output);
    assert!(
        told.contains("one-2.a.1") && told.contains("one-2.b.1"),
        "{told}"
    );
    let output = scene.glee(&["bundle", "enable", "one-2.a.1"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// An archive comes from a file or from the standard input; nothing else is waited for.
#[test]
fn k6_an_import_reads_the_standard_input_and_waits_for_no_pipe() {
    let scene = Scene::new();
    let mut child = Command::new(GLEE)
        .args(["bundle", "import", "-"])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&good(&[(ONE, "one")])).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(scene.root.join(format!(".glee/bundles/{ONE}")).exists());

    let made = Command::new("mkfifo")
        .arg(scene.root.join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let output = Command::new("timeout")
        .args(["-s", "KILL", "10", GLEE, "bundle", "import", "pipe"])
        .current_dir(&scene.root)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("import -"), "{}", stderr(&output));
}
