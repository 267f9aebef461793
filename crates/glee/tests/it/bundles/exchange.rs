//! Bundles as archives: what leaves, what comes in, and what must not.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use glee::app::{App, OnConflict, Run};
use glee_core::bundle::Key;
use glee_core::outcome::Failure;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::zip::{Raw, bundle, good, tool, zip};
use super::{House, open, user};
use crate::mcp::server::Served;
use crate::support::{Scene, json as printed, long, stderr};

const ONE: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af101);
const TWO: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af102);

const HELLO: &str = "\
name: hello
description: Say hello
kind: command
version: 1
inputs: {schema: {type: object, additionalProperties: false}}
outputs: {format: text}
exec: {command: {entrypoint: /bin/echo}}
permissions: {network: false}
approval: {required: false}
";

fn import(app: &App, archive: &[u8]) -> Result<(), Failure> {
    let done = app.import(archive, OnConflict::Fail, Run::Real, &user());
    done.map(|_| ())
}

/// Every file below a directory but the audit, with its content.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.symlink_metadata().unwrap() {
                _ if ["audit", "state", ".lock"].contains(&name.as_str()) => {}
                it if it.is_dir() => {
                    found.insert(path.clone(), Vec::new());
                    open.push(path);
                }
                it if it.is_file() => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
                _ => drop(found.insert(path, b"special".to_vec())),
            }
        }
    }
    found
}

/// Two bundles that always say the same.
fn furnished() -> Scene {
    let scene = Scene::new();
    for (id, slug) in [(TWO, "zwei"), (ONE, "one")] {
        let home = format!(".glee/bundles/{id}");
        let times = r#""createdAt": "2024-05-14T13:44:00Z", "modifiedAt": "2024-06-01T09:17:10Z""#;
        scene.write(
            &format!("{home}/bundle.json"),
            &format!(r#"{{"schemaVersion": "1", "bundleID": "{id}", "slug": "{slug}", "isEnabled": true, {times}}}"#),
        );
        for (file, slug) in [
            ("weather@v2.json", "weather"),
            ("%57etter@v2.json", "Wetter"),
        ] {
            scene.write(
                &format!("{home}/{file}"),
                &format!(
                    r#"{{"schemaVersion": "1", "bundleID": "{id}", "toolID": "018faf50-b7b6-7a01-9a05-a22a6e0af199",
                    "slug": "{slug}", "version": "v2", "type": "go", "isEnabled": true, "argSchema": {{"type": "object"}},
                    "impl": {{"goFunc": "x"}}, {times}}}"#
                ),
            );
        }
    }
    scene
}

/// `IM-05`: the same bundles are the same bytes, whenever and wherever, and of any release that follows.
#[test]
fn im_05_an_export_is_always_the_same() {
    let (first, second) = (furnished(), furnished());
    let archive = open(&first, BTreeMap::new()).export(&[]).unwrap();
    let other = open(&second, BTreeMap::new());
    assert_eq!(archive, other.export(&[]).unwrap());
    assert_eq!(archive, other.export(&[TWO, ONE, TWO]).unwrap());
    let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(&archive));
    assert_eq!(
        hash,
        "0a9e3fc0cb8d5cba0942e98d868a6eac32ec5c72b6f323876cd9ec5fad720192"
    );
    // Read by somebody else: these files, each as it is, and nothing else.
    let path = first.root.join("all.zip");
    fs::write(&path, &archive).unwrap();
    let script = "import json, sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\nprint(json.dumps([[i.filename, i.compress_type, i.date_time, i.external_attr >> 16, z.read(i).decode()] for i in z.infolist()]))";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .output()
        .unwrap();
    let listed = printed(&output);
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it[0].as_str().unwrap())
        .collect();
    let expected: Vec<String> = [ONE, TWO]
        .iter()
        .flat_map(|id| {
            ["%57etter@v2.json", "bundle.json", "weather@v2.json"].map(|it| format!("{id}/{it}"))
        })
        .collect();
    assert_eq!(names, expected);
    for it in listed.as_array().unwrap() {
        assert_eq!((&it[1], &it[2]), (&json!(0), &json!([1980, 1, 1, 0, 0, 0])));
        assert_eq!(it[3], 0o100_644);
        let document: Value = serde_json::from_str(it[4].as_str().unwrap()).unwrap();
        assert_eq!(document["schemaVersion"], "1");
    }
}

/// `IM-05`: nothing but documents leaves, and no value of a secret in one of them.
#[test]
fn im_05_no_secret_leaves() {
    let scene = Scene::new();
    scene.write(
        ".glee/config.yml",
        "bundles: {allowed_hosts: [example.com], secrets: [API_KEY]}\n",
    );
    let secrets = BTreeMap::from([("API_KEY".to_owned(), "s3cr3t-v4lue-77".to_owned())]);
    let app = open(&scene, secrets);
    let id = Uuid::now_v7();
    app.put_bundle(
        id,
        serde_json::from_value(json!({"slug": "b"})).unwrap(),
        &user(),
    )
    .unwrap();
    let put = |slug: &str, header: &str| {
        let key = Key {
            bundle: id,
            slug: slug.into(),
            version: "1".into(),
        };
        let body = json!({"type": "http", "impl": {"urlTemplate": "https://example.com/", "headers": {"X-Key": header}}});
        app.put_tool(&key, serde_json::from_value(body).unwrap(), &user())
            .unwrap();
        key
    };
    put("good", "${API_KEY}");
    let archive = app.export(&[id]).unwrap();
    let text = String::from_utf8_lossy(&archive);
    assert!(
        text.contains("${API_KEY}") && !text.contains("s3cr3t"),
        "{text}"
    );
    for word in ["token", "approval", "usage", "callCount", "journal"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    put("bad", "Bearer s3cr3t-v4lue-77");
    let refused = app.export(&[]).unwrap_err();
    assert_eq!(refused.kind.code(), "PERMISSION_DENIED");
    assert!(
        refused.message.contains("b.bad.1") && !refused.message.contains("s3cr3t"),
        "{refused:?}"
    );
}

/// What cannot be exported whole is not exported.
#[test]
fn an_export_is_whole_or_refused() {
    let scene = furnished();
    scene.write(".glee/tools/hello/tool.yml", HELLO);
    let app = open(&scene, BTreeMap::new());
    let tools = app.tools();
    let given = tools.bundles().find(|it| it.slug == "project").unwrap();
    for (id, code) in [(Uuid::now_v7(), "NOT_FOUND"), (given.id, "CONFLICT")] {
        assert_eq!(app.export(&[id]).unwrap_err().kind.code(), code);
    }
    scene.write(&format!(".glee/bundles/{ONE}/torn@1.json"), "{");
    app.reload().unwrap();
    let refused = app.export(&[]).unwrap_err();
    assert!(refused.message.contains("torn@1.json"), "{refused:?}");
    app.export(&[TWO]).unwrap();
    app.delete_bundle(TWO, &user()).unwrap();
    assert_eq!(app.export(&[TWO]).unwrap_err().kind.code(), "CONFLICT");
}

/// A REST request with an archive, and the bytes that come back.
fn rest(served: &Served, line: &str, owner: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut stream = served.send_bytes(line, owner, kind, body);
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&bytes[9..12]).unwrap().parse().unwrap();
    (status, bytes[end + 4..].to_vec())
}

pub(super) fn posted(house: &House, query: &str, archive: &[u8]) -> (u16, Value) {
    let line = format!("POST /tools/bundles/import{query}");
    let (status, body) = rest(
        &house.served,
        &line,
        &house.owner,
        "application/zip",
        archive,
    );
    (status, serde_json::from_slice(&body).unwrap())
}

/// There and back again, over REST and the command line; the tools that arrive are others, and disabled.
#[test]
fn k6_a_bundle_moves_to_another_project() {
    let here = House::new();
    let id = here.bundle("city");
    let put = json!({"type": "go", "displayName": "Ä tool", "tags": ["x"], "description": "Does",
        "argSchema": {"type": "object", "properties": {"a": {"type": "string"}}}, "outputSchema": {"type": "string"},
        "impl": {"goFunc": "no.Such"}});
    let before = here.expect(
        201,
        &format!("PUT {}", super::tool(id, "Wetter", "v2")),
        put,
    );
    let line = format!("GET /tools/bundles/export?bundleIDs={id}");
    let (status, archive) = rest(&here.served, &line, &here.owner, "", b"");
    assert_eq!(status, 200);
    let path = here.scene.root.join("city.zip");
    let output = here
        .scene
        .glee(&["bundle", "export", "city", "-o", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        fs::read(&path).unwrap(),
        archive,
        "the command line gives the same"
    );

    let there = House::new();
    let (status, told) = posted(&there, "?dryRun=true", &archive);
    assert_eq!((status, &told["dryRun"]), (200, &json!(true)), "{told}");
    assert_eq!(
        there.expect(200, "GET /tools?includeDisabled=true", Value::Null)["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["slug"] == "Wetter")
            .count(),
        0
    );
    assert!(!there.directory(id).exists());
    let (status, told) = posted(&there, "", &archive);
    assert_eq!(status, 200, "{told}");
    assert_eq!(
        told["bundles"],
        json!([{"from": {"bundleID": id.to_string(), "slug": "city"},
        "tools": [{"slug": "Wetter", "version": "v2"}], "bundleID": id.to_string(), "slug": "city"}])
    );
    let after = there.expect(
        200,
        &format!("GET {}", super::tool(id, "Wetter", "v2")),
        Value::Null,
    );
    for key in [
        "displayName",
        "description",
        "tags",
        "type",
        "argSchema",
        "outputSchema",
        "impl",
        "slug",
        "version",
        "bundleID",
        "name",
    ] {
        assert_eq!(after[key], before[key], "{key}");
    }
    assert_ne!(after["toolID"], before["toolID"]);
    assert_eq!(after["isEnabled"], false);
    assert!(there.files(id).iter().all(|it| !it.starts_with('.')));
    assert_eq!(
        there
            .scene
            .root
            .join(".glee/bundles")
            .read_dir()
            .unwrap()
            .count(),
        2,
        "the bundle and the lock"
    );
    // And by the command line into a third one, where a person switches it on.
    let third = Scene::new();
    let zip = path.to_str().unwrap();
    let output = third.glee(&["bundle", "import", zip, "--dry-run", "--json"]);
    assert_eq!(printed(&output)["dryRun"], true);
    assert!(!third.root.join(format!(".glee/bundles/{id}")).exists());
    let output = third.glee(&["bundle", "import", zip]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = third.glee(&["bundle", "import", zip]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("rename"), "{}", stderr(&output));
    let kept = |scene: &Scene| -> Value {
        let path = scene
            .root
            .join(format!(".glee/bundles/{id}/%57etter@v2.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    assert_eq!(kept(&third)["isEnabled"], false);
    let output = third.glee(&["bundle", "enable", "city.Wetter.v2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(kept(&third)["isEnabled"], true);
    third.glee(&["bundle", "disable", "city"]);
    let output = third.glee(&["bundle", "enable", "city.Wetter.v2"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

/// `IM-03`: an archive says what a tool is, and nothing about its standing.
#[test]
fn im_03_an_archive_gives_itself_nothing() {
    let claims = json!({"isBuiltIn": true, "isEnabled": true, "toolID": "018faf50-b7b6-7a01-9a05-a22a6e0af199",
        "createdAt": "1999-01-01T00:00:00Z", "modifiedAt": "1999-01-01T00:00:00Z", "usage": {"callCount": 9}});
    let scene = Scene::new();
    scene.write(".glee/tools/hello/tool.yml", HELLO);
    let app = open(&scene, BTreeMap::new());
    let files = [bundle(ONE, "one"), tool(ONE, "a", claims)];
    import(&app, &zip(&files.map(|it| Raw::stored(&it.0, &it.1)))).unwrap();
    let key = Key {
        bundle: ONE,
        slug: "a".into(),
        version: "1".into(),
    };
    let member = app.member(&key).unwrap();
    assert!(!member.enabled);
    assert_ne!(
        member.id.to_string(),
        "018faf50-b7b6-7a01-9a05-a22a6e0af199"
    );
    assert!(member.created_at.elapsed().unwrap() < Duration::from_secs(60));
    assert_eq!(member.keeper, glee_core::bundle::Keeper::Store);
    let text =
        fs::read_to_string(scene.root.join(format!(".glee/bundles/{ONE}/a@1.json"))).unwrap();
    assert!(
        !text.contains("isBuiltIn") && !text.contains("1999") && !text.contains("usage"),
        "{text}"
    );
    // What is no document of a tool at all does not come in with something else.
    for claim in ["created_by", "approved", "review", "approvals"] {
        let files = [bundle(TWO, "two"), tool(TWO, "a", json!({claim: true}))];
        let before = tree(&scene.root);
        import(&app, &zip(&files.map(|it| Raw::stored(&it.0, &it.1)))).unwrap_err();
        assert_eq!(tree(&scene.root), before, "{claim}");
    }
    // Nor does one take the place of a bundle that is always there.
    let tools = app.tools();
    let project = tools.bundles().find(|it| it.slug == "project").unwrap();
    for (id, slug) in [(TWO, "project"), (TWO, "core"), (project.id, "new")] {
        let refused = import(&app, &good(&[(id, slug)])).unwrap_err();
        assert_eq!(refused.kind.code(), "CONFLICT", "{slug}");
    }
}

/// What is there stays as it is, whatever is done about it.
#[test]
fn im_03_conflicts() {
    let scene = Scene::new();
    let app = open(&scene, BTreeMap::new());
    import(&app, &good(&[(ONE, "one")])).unwrap();
    let before = tree(&scene.root);
    let both = good(&[(ONE, "one"), (TWO, "two")]);
    let run = |archive: &[u8], on_conflict| app.import(archive, on_conflict, Run::Real, &user());
    assert_eq!(
        run(&both, OnConflict::Fail).unwrap_err().kind.code(),
        "CONFLICT"
    );
    assert_eq!(tree(&scene.root), before, "all or nothing");
    let arrivals = run(&both, OnConflict::Skip).unwrap();
    assert!(arrivals[0].now.is_err() && arrivals[1].now == Ok((TWO, "two".into())));
    let arrivals = run(&both, OnConflict::Rename).unwrap();
    for (arrival, slug) in arrivals.iter().zip(["one-2", "two-2"]) {
        let (id, now) = arrival.now.clone().unwrap();
        assert!(id != ONE && id != TWO && now == slug, "{arrival:?}");
        let key = Key {
            bundle: id,
            slug: "a".into(),
            version: "1".into(),
        };
        assert!(!app.member(&key).unwrap().enabled);
    }
    // Only the slug is taken; and two of one archive want the same.
    let third = Uuid::now_v7();
    let arrivals = run(&good(&[(third, "one")]), OnConflict::Rename).unwrap();
    assert_eq!(arrivals[0].now, Ok((third, "one-3".into())));
    let twins = good(&[(Uuid::now_v7(), "twin"), (Uuid::now_v7(), "twin")]);
    assert_eq!(
        run(&twins, OnConflict::Fail).unwrap_err().kind.code(),
        "CONFLICT"
    );
    let arrivals = run(&twins, OnConflict::Rename).unwrap();
    assert_eq!(arrivals[1].now.as_ref().unwrap().1, "twin-2");
    for (path, bytes) in before {
        assert_eq!(
            fs::read(&path).unwrap_or_default(),
            bytes,
            "{}",
            path.display()
        );
    }
}

/// No more tools come in than there may be.
#[test]
fn k6_an_import_keeps_the_limit_of_tools() {
    let scene = Scene::new();
    scene.write(".glee/config.yml", "bundles: {most_tools: 3}\n");
    let app = open(&scene, BTreeMap::new());
    let refused = import(&app, &good(&[(ONE, "one"), (TWO, "two")])).unwrap_err();
    assert_eq!(refused.kind.code(), "RATE_LIMITED");
    assert!(!scene.root.join(format!(".glee/bundles/{ONE}")).exists());
    import(&app, &good(&[(ONE, "one")])).unwrap();
}

fn directory(name: &str) -> Raw {
    let mut directory = Raw::stored(name, b"");
    directory.attributes = 0o040_755 << 16 | 0x10;
    directory
}

/// Archives that are refused as a whole: `IM-01` and `IM-02`.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let parts = || vec![Raw::deflated(&bundle(ONE, "one").0, &bundle(ONE, "one").1)];
    let named = |name: &[u8]| {
        let mut entry = Raw::stored("x", b"{}");
        entry.name = name.to_vec();
        let mut all = parts();
        all.push(entry);
        zip(&all)
    };
    let with = |change: &dyn Fn(&mut Raw)| {
        let (name, bytes) = tool(ONE, "a", json!({}));
        let mut entry = Raw::deflated(&name, &bytes);
        change(&mut entry);
        let mut all = parts();
        all.push(entry);
        zip(&all)
    };
    let named_directory = |name: &str| {
        let mut all = parts();
        all.push(directory(name));
        zip(&all)
    };
    let whole = || with(&|_| {});
    let cut = |count: usize| whole()[..whole().len() - count].to_vec();
    let set = |from_end: usize, bytes: &[u8]| {
        let mut archive = whole();
        let at = archive.len() - from_end;
        archive[at..at + bytes.len()].copy_from_slice(bytes);
        archive
    };
    let extra = |id: u16| {
        with(&|it| it.extra = [id.to_le_bytes().as_slice(), &[4, 0, 1, 2, 3, 4]].concat())
    };
    let a = format!("{ONE}/a@1.json");
    let mut all = vec![
        ("slip", named(b"../../escaped.json")),
        (
            "slip inside",
            named(format!("{ONE}/../../escaped.json").as_bytes()),
        ),
        ("absolute", named(b"/tmp/escaped.json")),
        ("drive letter", named(b"c:/escaped.json")),
        ("backslash", named(b"..\\escaped.json")),
        ("dot", named(format!("{ONE}/./a@1.json").as_bytes())),
        ("two slashes", named(format!("{ONE}//a@1.json").as_bytes())),
        ("hidden", named(format!("{ONE}/.lock").as_bytes())),
        ("NUL", named(format!("{ONE}/a\0b@1.json").as_bytes())),
        ("invalid UTF-8", named(&[b'a', 0xff, b'b'])),
        (
            "overlong UTF-8",
            named(&[0xc0, 0xae, 0xc0, 0xae, 0xc0, 0xaf, b'x']),
        ),
        ("upper case", named(format!("{ONE}/A@1.json").as_bytes())),
        ("short name of DOS", named(b"BUNDLE~1.JSO")),
        ("device of DOS", named(b"con")),
        ("empty name", named(b"")),
        (
            "nested archive",
            named(format!("{ONE}/inner.zip").as_bytes()),
        ),
        (
            "too deep",
            named(format!("{ONE}/tools/a@1.json").as_bytes()),
        ),
        ("no bundle's directory", named(b"elsewhere/a@1.json")),
        ("directory of any name", named_directory("elsewhere/")),
        (
            "directory in a bundle",
            named_directory(&format!("{ONE}/tools/")),
        ),
        (
            "directory of no bundle there is",
            named_directory(&format!("{TWO}/")),
        ),
        ("directory twice", {
            let own = directory(&format!("{ONE}/"));
            let mut all = parts();
            all.extend([own.clone(), own]);
            zip(&all)
        }),
        ("wrong name", named(format!("{ONE}/b@1.json").as_bytes())),
        ("symbolic link", with(&|it| it.attributes = 0o120_777 << 16)),
        ("device", with(&|it| it.attributes = 0o060_644 << 16)),
        ("fifo", with(&|it| it.attributes = 0o010_644 << 16)),
        ("socket", with(&|it| it.attributes = 0o140_644 << 16)),
        (
            "file that is a directory",
            with(&|it| it.attributes = 0o040_755 << 16),
        ),
        ("volume label", with(&|it| it.attributes = 0x08)),
        ("set-user-ID", with(&|it| it.attributes = 0o104_755 << 16)),
        ("set-group-ID", with(&|it| it.attributes = 0o102_755 << 16)),
        (
            "directory with a content",
            with(&|it| it.name = format!("{ONE}/").into()),
        ),
        ("hard link", extra(0x000d)),
        ("link of ASi", extra(0x756e)),
        ("another name in Unicode", extra(0x7075)),
        ("ZIP64", extra(0x0001)),
        ("AES", extra(0x9901)),
        (
            "broken extra",
            with(&|it| it.extra = vec![0x55, 0x54, 9, 0, 1]),
        ),
        ("ZIP64 sizes", with(&|it| it.length = u32::MAX)),
        ("ZIP64 version", with(&|it| it.needs = 45)),
        ("encrypted", with(&|it| it.flags = 1)),
        ("strongly encrypted", with(&|it| it.flags = 1 << 6)),
        ("patched", with(&|it| it.flags = 1 << 5)),
        ("masked", with(&|it| it.flags = 1 << 13)),
        ("other compression", with(&|it| it.method = 12)),
        ("larger than it says", with(&|it| it.length -= 1)),
        ("smaller than it says", with(&|it| it.length += 1)),
        ("stored with two sizes", with(&|it| it.method = 0)),
        (
            "two lengths",
            with(&|it| it.own_length = Some(it.length + 1)),
        ),
        (
            "two names",
            with(&|it| it.own_name = Some(b"../../x.json".to_vec())),
        ),
        ("bad checksum", with(&|it| it.crc ^= 1)),
        ("bytes after deflate's end", with(&|it| it.packed.push(0))),
        (
            "cut deflate",
            with(&|it| it.packed.truncate(it.packed.len() - 1)),
        ),
        ("no descriptor", with(&|it| it.flags = 1 << 3)),
        ("gap", with(&|it| it.after = vec![0; 16])),
        ("overlap", with(&|it| it.at = Some(0))),
        ("twice", {
            let (name, bytes) = tool(ONE, "a", json!({}));
            let mut all = parts();
            all.extend([Raw::stored(&name, &bytes), Raw::stored(&name, &bytes)]);
            zip(&all)
        }),
        ("before", [b"#!/bin/sh\n".as_slice(), &whole()].concat()),
        ("trailing", [whole().as_slice(), b"x"].concat()),
        ("trailing archive", [whole(), whole()].concat()),
        ("comment", [&set(2, &[3, 0]), b"abc".as_slice()].concat()),
        ("comment that is not there", set(2, &[3, 0])),
        (
            "comment of an entry",
            with(&|it| it.comment = b"abc".to_vec()),
        ),
        ("cut", cut(1)),
        ("cut in the directory", cut(30)),
        ("other disk", set(18, &[1, 0])),
        ("other count", set(14, &[1, 0, 1, 0])),
        ("directory elsewhere", set(6, &[0, 0, 0, 0])),
        ("nothing", Vec::new()),
        ("no archive", b"{\"schemaVersion\": \"1\"}".to_vec()),
        ("empty archive", zip(&[])),
        ("no bundle.json", {
            let (name, bytes) = tool(ONE, "a", json!({}));
            zip(&[Raw::stored(&name, &bytes)])
        }),
        ("too many entries", {
            let many = (0..1001).map(|it| Raw::stored(&format!("{ONE}/t{it}@1.json"), b"{}"));
            zip(&many.collect::<Vec<_>>())
        }),
        ("bomb", { zip(&[Raw::deflated(&a, &vec![b' '; 8 << 20])]) }),
        ("file too large", {
            zip(&[Raw::stored(&a, &vec![b' '; (8 << 20) + 1])])
        }),
        ("too much in all", {
            let part = vec![b' '; 13 << 19];
            let many = (0..5).map(|it| Raw::stored(&format!("{ONE}/t{it}@1.json"), &part));
            zip(&many.collect::<Vec<_>>())
        }),
        ("archive too large", vec![0; (33 << 20) + 1]),
    ];
    // Documents that are none.
    for (what, more) in [
        ("newer document", json!({"schemaVersion": "2"})),
        ("document without a version", json!({"schemaVersion": null})),
        ("unknown field", json!({"surprise": 1})),
        (
            "other bundle's id in it",
            json!({"bundleID": TWO.to_string()}),
        ),
        ("other bundle's slug in it", json!({"slug": "../b"})),
        ("bad schema", json!({"argSchema": {"type": "nothing"}})),
        (
            "host that is not allowed",
            json!({"type": "http", "impl": {"urlTemplate": "https://evil.example/"}}),
        ),
    ] {
        let (_, bytes) = tool(ONE, "a", more);
        let mut entries = parts();
        entries.push(Raw::stored(&a, &bytes));
        all.push((what, zip(&entries)));
    }
    all
}

/// What is said of those that something behind would refuse, too.
const WORDS: &[(&str, &str)] = &[
    ("slip", "no name"),
    ("slip inside", "no name"),
    ("absolute", "no name"),
    ("drive letter", "no name"),
    ("backslash", "no name"),
    ("dot", "no name"),
    ("two slashes", "no name"),
    ("hidden", "no name"),
    ("NUL", "no name"),
    ("invalid UTF-8", "no name"),
    ("overlong UTF-8", "no name"),
    ("upper case", "no name"),
    ("short name of DOS", "no name"),
    ("empty name", "no name"),
    ("too many entries", "more than 1000 entries"),
    ("bomb", "more than 100 times"),
    ("file too large", "larger than 8 MiB"),
    ("too much in all", "more than 32 MiB"),
    ("archive too large", "larger than 33 MiB"),
];

/// Nothing of a hostile archive gets anywhere.
#[test]
fn im_01_im_02_hostile_archives_are_refused_as_a_whole() {
    let scene = Scene::new();
    let app = open(&scene, BTreeMap::new());
    import(&app, &good(&[(TWO, "two")])).unwrap();
    let around = scene.root.parent().unwrap().to_owned();
    let before = tree(&around);
    for (what, archive) in hostile() {
        let began = Instant::now();
        let refused = import(&app, &archive).expect_err(what);
        assert_eq!(refused.kind.code(), "INVALID_INPUT", "{what}: {refused:?}");
        // Some would not come far in any case; each is stopped at the first gate.
        if let Some((_, words)) = WORDS.iter().find(|it| it.0 == what) {
            assert!(refused.message.contains(words), "{what}: {refused:?}");
        }
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{what}: {:?}",
            began.elapsed()
        );
        assert!(tree(&around) == before, "{what}: something was written");
    }
    // It is those lies that were refused, not what they were told about.
    let (name, bytes) = tool(ONE, "a", json!({}));
    let (own, document) = bundle(ONE, "one");
    let directory = directory(&format!("{ONE}/"));
    let mut later = Raw::deflated(&name, &bytes);
    later.flags = 1 << 3;
    for number in [
        0x0807_4b50,
        later.crc,
        later.packed.len() as u32,
        later.length,
    ] {
        later.after.extend(u32::to_le_bytes(number));
    }
    import(
        &app,
        &zip(&[directory, Raw::stored(&own, &document), later]),
    )
    .unwrap();
}

/// The same over REST, by a server that stays small.
#[test]
fn im_02_a_server_stays_small() {
    let house = House::new();
    let peak = || -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", house.served.child.id())).unwrap();
        let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            / 1024
    };
    let before = peak();
    for (what, archive) in hostile() {
        if [
            "bomb",
            "file too large",
            "too much in all",
            "too many entries",
            "slip",
        ]
        .contains(&what)
        {
            let (status, told) = posted(&house, "", &archive);
            assert_eq!(
                (status, &told["error"]["code"]),
                (400, &json!("INVALID_INPUT")),
                "{what}"
            );
        }
    }
    let after = peak();
    assert!(after - before < 64, "{before} MiB, then {after} MiB");
    let reply = house.ask("POST /tools/bundles/import", json!({}));
    assert_eq!(reply.status, 400, "{reply:?}");
    let (status, _) = posted(&house, "?onConflict=overwrite", &good(&[(ONE, "one")]));
    assert_eq!(status, 400);
    let reader = house.token("reader", &["read_registry"]);
    let line = "POST /tools/bundles/import";
    let (status, _) = rest(
        &house.served,
        line,
        &reader,
        "application/zip",
        &good(&[(ONE, "one")]),
    );
    assert_eq!(status, 403);
    let (status, _) = rest(
        &house.served,
        line,
        &house.owner,
        "application/json",
        &good(&[(ONE, "one")]),
    );
    assert_eq!(status, 400);
    assert!(!house.directory(ONE).exists());
    let invoker = house.token("invoker", &["invoke_tool"]);
    let (status, _) = rest(
        &house.served,
        "GET /tools/bundles/export",
        &invoker,
        "",
        b"",
    );
    assert_eq!(status, 403);
}

/// Archives that other programs write are read.
#[test]
fn archives_of_other_programs() {
    let scene = Scene::new();
    let app = open(&scene, BTreeMap::new());
    let path = scene.root.join("made.zip");
    let script = "import sys, zipfile\nmode, path, *files = sys.argv[1:]\nout = open(path, 'wb')\nif mode == 'stream':\n    out.seekable = lambda: False\nwith zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as z:\n    for name, text in zip(files[::2], files[1::2]):\n        z.writestr(name, text)";
    for (mode, id, slug) in [("file", ONE, "one"), ("stream", TWO, "two")] {
        let mut command = Command::new("python3");
        command.args(["-c", script, mode]).arg(&path);
        for (name, bytes) in [bundle(id, slug), tool(id, "a", json!({}))] {
            command.arg(name).arg(String::from_utf8(bytes).unwrap());
        }
        assert!(command.status().unwrap().success());
        import(&app, &fs::read(&path).unwrap()).unwrap_or_else(|err| panic!("{mode}: {err:?}"));
        let key = Key {
            bundle: id,
            slug: "a".into(),
            version: "1".into(),
        };
        app.member(&key).unwrap();
    }
}

/// Whatever becomes of the bytes of an archive: it is taken in whole or not at all, and nobody falls over.
#[test]
fn im_02_mutated_archives() {
    let count = long(400, 20_000);
    let scene = Scene::new();
    let app = open(&scene, BTreeMap::new());
    let around = scene.root.parent().unwrap().to_owned();
    fs::create_dir(scene.root.join(".glee/bundles")).unwrap();
    let empty = tree(&around);
    let whole = good(&[(ONE, "one"), (TWO, "two")]);
    let mut taken = 0;
    for seed in 0..count {
        let random = |step: u64| super::crash::scattered(seed * 101 + step) as usize;
        let mut archive = whole.clone();
        for step in 0..1 + random(0) as u64 % 3 {
            let at = random(10 + step) % archive.len();
            match random(20 + step) % 6 {
                0 => archive[at] ^= 1 << (random(30 + step) % 8),
                1 => archive[at] = random(30 + step) as u8,
                2 => drop(archive.remove(at)),
                3 => archive.insert(at, random(30 + step) as u8),
                4 => archive.truncate(at.max(1)),
                _ => {
                    let to = (at + random(30 + step) % 64).min(archive.len());
                    let piece = archive[at..to].to_vec();
                    archive.extend(piece);
                }
            }
        }
        match import(&app, &archive) {
            Err(_) => assert!(tree(&around) == empty, "seed {seed}: something was written"),
            Ok(()) => {
                taken += 1;
                let homes = fs::read_dir(scene.root.join(".glee/bundles")).unwrap();
                for home in homes.map(|it| it.unwrap().path()).filter(|it| it.is_dir()) {
                    assert_eq!(fs::read_dir(&home).unwrap().count(), 3, "seed {seed}");
                    fs::remove_dir_all(home).unwrap();
                }
                app.reload().unwrap();
            }
        }
    }
    // Times, and the like, are not looked at.
    assert!(taken < count / 4, "{taken} of {count} were taken in");
}
