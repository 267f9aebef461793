//! Who makes a tool, under which name, of what, and how often.

use std::fs;

use serde_json::{Value, json};

use super::{Agent, exists, manifest, plain, record, scene, scene_with, stamp};
use crate::mcp::server::{Served, eventually, glee};
use crate::support::long;

#[test]
fn ai_01_the_creator_is_whoever_called() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    for said in [
        "creator",
        "created_by",
        "Creator",
        "сreator",
        "origin",
        "isBuiltIn",
    ] {
        let mut definition = plain(json!({}));
        definition[said] = json!("user");
        let (made, text) = agent.create("mine", definition);
        assert!(!made && text.starts_with("INVALID_INPUT"), "{said}: {text}");
        assert!(!exists(&scene, ".glee/tools/mine"), "{said}");
    }
    let (made, text) = agent.create("mine", plain(json!({})));
    assert!(made, "{text}");
    assert!(manifest(&scene, "mine").contains("\ncreator: mcp\n"));
    let known = record(&scene, "mine");
    assert_eq!(
        (&known["creator"], &known["client"]),
        (&json!("mcp"), &json!("test 1"))
    );
    let bob = glee(&scene, &["token", "create", "bob"]);
    let served = Served::guarded(&scene);
    let args = json!({"name": "his", "definition": plain(json!({}))});
    let call = json!({"name": "glee_tool_create", "arguments": args});
    let answer = served.call_as(Some(&bob), 1, "tools/call", call).message();
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(record(&scene, "his")["creator"], "bob");
    let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    let line =
        "TOOL_CREATED name=his creator=bob permissions={network:false,fs:{read:[],write:[]}} id=";
    assert!(log.contains(line), "{log}");
}

/// Only a person may say that nobody need be asked.
#[test]
fn ai_04_a_person_is_asked_whatever_the_definition_says() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    for (name, approval, reason) in [
        (
            "never",
            json!({"required": false}),
            "it was made by an agent",
        ),
        (
            "blank",
            json!({"required": false, "reason": " "}),
            "it was made by an agent",
        ),
        (
            "given",
            json!({"required": true, "reason": "it prints"}),
            "it prints",
        ),
        ("absent", Value::Null, "it was made by an agent"),
    ] {
        let mut definition = plain(json!({}));
        definition["approval"] = approval.clone();
        if approval.is_null() {
            definition.as_object_mut().unwrap().shift_remove("approval");
        }
        let (made, text) = agent.create(name, definition);
        assert!(made, "{name}: {text}");
        let text = manifest(&scene, name);
        let wanted = format!("approval:\n  required: true\n  reason: {reason}\n");
        assert!(text.contains(&wanted), "{text}");
    }
}

#[test]
fn ai_05_a_name_that_is_taken_or_looks_so_stays_what_it_is() {
    let scene = scene();
    let own = "name: web_search\nmine: yes\n";
    scene.write(".glee/tools/web_search/tool.yml", own);
    scene.write(".glee/tools/a.b/tool.yml", "name: a.b\n");
    scene.write(".glee/tools/stray", "a file");
    let mut agent = Agent::of(&scene);
    for name in [
        "web_search",
        "Web_Search",
        "WEB-SEARCH",
        "web-search",
        "a_b",
        "A-B",
        "stray",
        "glee_tool",
        "GLEE_tool",
        "glee-tool",
        "glee_anything",
    ] {
        let (made, text) = agent.create(name, plain(json!({})));
        assert!(!made && text.starts_with("CONFLICT"), "{name}: {text}");
    }
    for name in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "-rf",
        ".hidden",
        "a b",
        "a\nb",
        "wéb",
        "we\u{301}b",
        "ｗeb",
    ] {
        let (made, text) = agent.create(name, plain(json!({})));
        assert!(!made && text.starts_with("INVALID_INPUT"), "{name}: {text}");
    }
    let mut there: Vec<_> = fs::read_dir(scene.root.join(".glee/tools"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    there.sort();
    assert_eq!(there, ["a.b", "stray", "web_search"]);
    assert_eq!(manifest(&scene, "web_search"), own);
    // An agent's own tool is no exception.
    assert!(agent.create("once", plain(json!({}))).0);
    let before = manifest(&scene, "once");
    let (made, text) = agent.create("once", plain(json!({"fs": {"read": ["src"]}})));
    assert!(!made && text.starts_with("CONFLICT"), "{text}");
    assert_eq!(manifest(&scene, "once"), before);
}

/// Several processes, each with names that look alike: one of them makes the tool, and its bytes stay.
#[test]
fn ai_05_one_of_those_who_race_for_a_name_gets_it() {
    const NAMES: usize = 12;
    let name = |racer: usize, at: usize| ["t_x", "T-x", "t_X"][racer].to_owned() + &at.to_string();
    let scene = scene();
    let race = |racer: usize| {
        let mut agent = Agent::of(&scene);
        let make = |at: usize| {
            let mut definition = plain(json!({}));
            definition["description"] = format!("made by racer {racer}").into();
            agent.create(&name(racer, at), definition).0
        };
        (0..NAMES).map(make).collect::<Vec<bool>>()
    };
    let won = std::thread::scope(|scope| {
        let race = &race;
        let racers = [0, 1, 2].map(|racer| scope.spawn(move || race(racer)));
        racers.map(|it| it.join().unwrap())
    });
    for at in 0..NAMES {
        let winners: Vec<usize> = (0..3)
            .zip(&won)
            .filter(|(_, won)| won[at])
            .map(|(racer, _)| racer)
            .collect();
        let there: Vec<usize> = (0..3)
            .filter(|racer| exists(&scene, &format!(".glee/tools/{}", name(*racer, at))))
            .collect();
        assert_eq!((winners.len(), &winners), (1, &there));
        let text = manifest(&scene, &name(there[0], at));
        assert!(
            text.contains(&format!("made by racer {}", there[0])),
            "{text}"
        );
    }
}

/// What an agent brings with the tool lies in the tool's directory, and nowhere else.
#[test]
fn ai_07_files_have_plain_names_and_bounds() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    for name in [
        "../run.sh",
        "/tmp/run.sh",
        "a/../../run.sh",
        "a/./b",
        "a//b",
        "a/",
        "",
        ".",
        "..",
        ".hidden",
        "a/.git/hooks",
        "tool.yml",
        "__pycache__/x.pyc",
        "lib/__pycache__/x.pyc",
        "-rf",
        "a\u{202e}b",
        "a\nb",
        "a\\b",
    ] {
        let files = json!({"ok.sh": "#!/bin/sh\n", name: "#!/bin/sh\n"});
        let (made, text) = agent.create_with("bringing", plain(json!({})), files);
        assert!(
            !made && text.starts_with("INVALID_INPUT"),
            "{name:?}: {text}"
        );
        assert!(!exists(&scene, ".glee/tools/bringing"), "{name:?}");
    }
    let many: serde_json::Map<String, Value> =
        (0..33).map(|at| (format!("f{at}"), json!(""))).collect();
    let large = json!({"a": "x".repeat(1 << 20), "b": "x"});
    let both = json!({"a": "", "a/b": ""});
    for files in [json!(many), large, both] {
        let (made, text) = agent.create_with("bringing", plain(json!({})), files);
        assert!(
            !made && text.starts_with("INVALID_INPUT"),
            "{}",
            &text[..200.min(text.len())]
        );
    }
    let (made, text) = agent.create_with(
        "bringing",
        stamp("bringing"),
        json!({"other.sh": "#!/bin/sh\n"}),
    );
    assert!(!made && text.contains("/exec/command/entrypoint"), "{text}");
    assert!(!exists(&scene, ".glee/tools/bringing") && !exists(&scene, ".glee/run.sh"));
    let files = json!({"run.sh": "#!/bin/sh\n", "lib/deep/data.txt": "x"});
    let (made, text) = agent.create_with("bringing", stamp("bringing"), files);
    assert!(made, "{text}");
    assert!(exists(&scene, ".glee/tools/bringing/lib/deep/data.txt"));
}

#[test]
fn ai_08_one_agent_makes_only_so_many_tools_a_minute() {
    let scene = scene_with("security: {agent_tools: {per_minute: 2}}\n");
    let mut agent = Agent::of(&scene);
    assert!(agent.create("a", plain(json!({}))).0 && agent.create("b", plain(json!({}))).0);
    let (made, text) = agent.create("c", plain(json!({})));
    assert!(!made && text.starts_with("RATE_LIMITED"), "{text}");
    assert!(!exists(&scene, ".glee/tools/c"));
    // Nor does it help to come back.
    let (made, text) = Agent::of(&scene).create("c", plain(json!({})));
    assert!(!made && text.starts_with("RATE_LIMITED"), "{text}");
    // Another one is another one.
    let served = Served::open(&scene);
    let args = json!({"name": "d", "definition": plain(json!({}))});
    let call = json!({"name": "glee_tool_create", "arguments": args});
    let answer = served.call(1, "tools/call", call).message();
    assert_ne!(answer["result"]["isError"], true, "{answer}");
}

#[test]
fn ai_08_all_agents_together_make_only_so_many_tools() {
    let scene = scene_with("security: {agent_tools: {per_minute: 1000, total: 3}}\n");
    for name in ["a", "b", "c"] {
        assert!(Agent::of(&scene).create(name, plain(json!({}))).0);
    }
    let (made, text) = Agent::of(&scene).create("d", plain(json!({})));
    assert!(!made && text.starts_with("RATE_LIMITED"), "{text}");
    assert!(!exists(&scene, ".glee/tools/d"));
    // A person makes room.
    fs::remove_dir_all(scene.root.join(".glee/tools/a")).unwrap();
    assert!(Agent::of(&scene).create("d", plain(json!({}))).0);
}

/// Each with its place, in one answer.
#[test]
fn t1_everything_wrong_with_a_definition_is_told_at_once() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    let mut definition = plain(json!({"fs": {"read": [""]}, "network": {"hosts": ["*"]}}));
    definition["version"] = json!(0);
    definition["colour"] = json!("red");
    definition["exec"]["command"]["args"] = json!(["${nobody}"]);
    definition["examples"] = json!([{"description": "x", "params": {"unknown": 1}}]);
    let (made, text) = agent.create_with("wrong", definition, json!({"../x": ""}));
    assert!(!made && text.starts_with("INVALID_INPUT"), "{text}");
    for pointer in [
        "/version",
        "/colour",
        "/exec/command/args/0",
        "/permissions/fs/read/0",
        "/permissions/network/hosts/0",
        "/files/..~1x",
    ] {
        assert!(
            text.contains(&format!("\"pointer\":\"{pointer}\"")),
            "{pointer}: {text}"
        );
    }
    assert!(!exists(&scene, ".glee/tools/wrong"));
}

/// What cannot be recorded is not done.
#[test]
fn ad_03_no_tool_is_made_without_a_record() {
    let scene = scene();
    fs::create_dir_all(scene.root.join(".glee/audit/tools.log")).unwrap();
    let (made, text) = Agent::of(&scene).create("quiet", plain(json!({})));
    assert!(!made && text.contains("cannot be recorded"), "{text}");
    assert!(!exists(&scene, ".glee/tools/quiet") && !exists(&scene, ".glee/reviews/quiet.json"));
}

/// Whenever the server dies, there is a whole tool that waits, or none.
#[test]
fn t1_a_tool_is_there_whole_or_not_at_all() {
    let rounds = long(12, 200);
    let scene = scene();
    for round in 0..rounds {
        let name = format!("t{round}");
        let mut agent = Agent::of(&scene);
        let files = json!({"run.sh": "#!/bin/sh\n", "lib/large.txt": "x".repeat(500_000)});
        let args = json!({"name": name, "definition": stamp(&name), "files": files});
        let params = json!({"name": "glee_tool_create", "arguments": args});
        agent
            .pipes
            .send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}));
        // Sooner or later, from before it has read the request to when it is done.
        let staged = || {
            let entries = fs::read_dir(scene.root.join(".glee/tools")).unwrap();
            entries
                .flatten()
                .any(|it| it.file_name().to_string_lossy().starts_with(".new-"))
        };
        if round % 3 > 0 {
            eventually("it is being made", || {
                staged() || exists(&scene, &format!(".glee/tools/{name}"))
            });
        }
        if round % 3 > 1 {
            eventually("it is there", || {
                exists(&scene, &format!(".glee/tools/{name}"))
            });
        }
        agent.pipes.child.kill().unwrap();
        agent.pipes.child.wait().unwrap();
        if exists(&scene, &format!(".glee/tools/{name}")) {
            let large = scene.root.join(format!(".glee/tools/{name}/lib/large.txt"));
            assert_eq!(fs::metadata(large).unwrap().len(), 500_000);
            let shown = crate::support::json(&scene.glee(&["show", &name, "--json"]));
            assert_eq!(
                (&shown["creator"], &shown["review"]),
                (&json!("mcp"), &json!("pending"))
            );
        }
        // What is left of it is in nobody's way.
        for entry in fs::read_dir(scene.root.join(".glee/tools"))
            .unwrap()
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(".new-") {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    }
    let output = scene.glee(&["list"]);
    assert!(output.status.success());
}
