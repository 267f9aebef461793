//! What waits for review can be seen by people and used by nobody; what was approved, only as it was seen.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use glee::app::App;
use glee::review::{Body, Ruling};
use glee_core::outcome::FailureKind;
use glee_core::port::{Answer, Caller};
use serde_json::{Value, json};

use super::{Agent, approve, at_a_terminal, exists, manifest, plain, record, relax, scene, stamp};
use crate::mcp::server::{Served, eventually, glee};
use crate::support::{self, Scene, stderr, stdout, wiring};

/// Everything an agent can look at, in one text.
fn shown(agent: &mut Agent) -> String {
    let mut all = String::new();
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/resource", "uri": "glee://tools/{name}"},
                "argument": {"name": "name", "value": ""},
            }),
        ),
    ] {
        all += &agent.ask(method, params).to_string();
    }
    for (tool, args) in [
        (
            "glee_tools_list",
            json!({"detail": "full", "max_tokens": 100_000}),
        ),
        (
            "glee_tools_search",
            json!({"query": "print a word", "k": 100, "max_tokens": 100_000}),
        ),
    ] {
        all += &agent.call(tool, args).1;
    }
    all
}

fn app(scene: &Scene) -> App {
    let nobody = Answer::Nobody {
        hint: String::new(),
    };
    App::open(scene.project(), wiring(BTreeMap::new(), nobody)).unwrap()
}

fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
    }
}

#[test]
fn t2_what_waits_is_listed_to_people_and_to_no_agent() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("waiting");
    assert!(!shown(&mut agent).contains("waiting"));
    let (found, text) = agent.call("glee_tool_describe", json!({"name": "waiting"}));
    assert!(!found && text.starts_with("APPROVAL_REQUIRED"), "{text}");
    let read = agent.ask("resources/read", json!({"uri": "glee://tools/waiting"}));
    assert!(read["error"].is_object(), "{read}");
    assert!(!stdout(&scene.glee(&["list"])).contains("waiting"));
    let listed = stdout(&scene.glee(&["list", "--all"]));
    assert!(
        listed.contains("waiting") && listed.contains("(waits for review)"),
        "{listed}"
    );
    let shown = stdout(&scene.glee(&["show", "waiting"]));
    assert!(
        shown.contains("Made by the agent `mcp`; waits for review"),
        "{shown}"
    );
    let waiting = stdout(&scene.glee(&["tools", "review"]));
    assert!(waiting.starts_with("waiting  by mcp"), "{waiting}");
}

#[test]
fn t2_what_waits_runs_on_no_surface() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("waiting");
    relax(&scene, "waiting");
    for (tool, args) in [
        ("waiting", json!({})),
        ("glee_tool", json!({"name": "waiting", "params": {}})),
    ] {
        let (ran, text) = agent.call(tool, args);
        assert!(!ran && text.starts_with("APPROVAL_REQUIRED"), "{text}");
        assert!(text.contains("glee tools review waiting"), "{text}");
    }
    let output = scene.glee(&["run", "waiting", "--json"]);
    assert_eq!(support::json(&output)["error"]["code"], "APPROVAL_REQUIRED");
    scene.glee(&["test", "waiting"]);
    // Somebody who says yes to the call has not reviewed the tool.
    at_a_terminal(&scene, "run waiting", "y\n");
    assert!(!exists(&scene, "out/waiting"));
}

/// However it came to be there: a manifest that names an agent is an agent's, with a record or without.
#[test]
fn t2_a_manifest_that_names_an_agent_waits_too() {
    let scene = scene();
    Agent::of(&scene).make_stamp("made");
    relax(&scene, "made");
    fs::remove_file(scene.root.join(".glee/reviews/made.json")).unwrap();
    let code = |scene: &Scene| {
        support::json(&scene.glee(&["run", "made", "--json"]))["error"]["code"].clone()
    };
    assert_eq!(code(&scene), "APPROVAL_REQUIRED");
    approve(&scene, "made");
    assert!(scene.glee(&["run", "made"]).status.success());
    // One whose manifest no longer names the agent is still the agent's.
    let text = manifest(&scene, "made").replace("creator: mcp\n", "");
    scene.write(".glee/tools/made/tool.yml", &text);
    assert_eq!(code(&scene), "APPROVAL_REQUIRED");
    // And so is one whose record nobody can read.
    scene.write(".glee/reviews/made.json", "{}");
    assert_eq!(code(&scene), "APPROVAL_REQUIRED");
}

#[test]
fn t2_what_a_person_approved_can_be_used() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("useful");
    relax(&scene, "useful");
    let screen = approve(&scene, "useful");
    for part in [
        "made by mcp, by a program that calls itself test 1",
        "writes   out",
        "reads    nothing",
        "reaches  nothing",
        "secrets  nothing",
        "touch out/useful",
        "creator: mcp",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    eventually("agents are shown the tool", || {
        shown(&mut agent).contains("useful")
    });
    let (ran, text) = agent.call("useful", json!({}));
    assert!(ran && exists(&scene, "out/useful"), "{text}");
    let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    assert!(
        log.contains("TOOL_APPROVED name=useful approver=user"),
        "{log}"
    );
    let listed = stdout(&scene.glee(&["tools", "review"]));
    assert_eq!(listed, "");
}

/// Nobody has said so: not by a pipe, not by saying anything but yes.
#[test]
fn t2_only_a_person_at_a_terminal_approves() {
    let scene = scene();
    Agent::of(&scene).make_stamp("wanted");
    let output = scene.glee_with(
        &["tools", "review", "wanted", "--approve"],
        &BTreeMap::new(),
        "y\ny\n",
    );
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    for typed in ["\n", "n\n", "yy\n", "\u{4}"] {
        let (screen, code) = at_a_terminal(&scene, "tools review wanted --approve", typed);
        assert_eq!(code, 3, "{typed:?}: {screen}");
    }
    assert_eq!(record(&scene, "wanted")["decision"], Value::Null);
}

#[test]
fn t2_the_agent_is_told_why_a_tool_was_denied() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("unwanted");
    relax(&scene, "unwanted");
    let output = scene.glee(&[
        "tools",
        "review",
        "unwanted",
        "--deny",
        "--reason",
        "use the\none we have",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    for (tool, args) in [
        ("unwanted", json!({})),
        ("glee_tool_describe", json!({"name": "unwanted"})),
    ] {
        eventually("it is told", || {
            let (ran, text) = agent.call(tool, args.clone());
            assert!(!ran);
            text.starts_with("APPROVAL_DENIED") && text.contains("use the\none we have")
        });
    }
    assert!(!exists(&scene, "out/unwanted") && exists(&scene, ".glee/tools/unwanted/tool.yml"));
    assert!(stdout(&scene.glee(&["list", "--all"])).contains("(denied)"));
    let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    assert!(
        log.contains("TOOL_DENIED name=unwanted approver=user reason=\"use the\\none we have\""),
        "{log}"
    );
}

/// The manifest, a file, a new file, a file that is gone: at once, also in a server that has not heard
/// of the change.
#[test]
fn ai_07_any_change_returns_a_tool_to_review() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("fickle");
    relax(&scene, "fickle");
    approve(&scene, "fickle");
    eventually("agents see it", || shown(&mut agent).contains("fickle"));
    let (ran, text) = agent.call("glee_tool", json!({"name": "fickle"}));
    assert!(ran, "{text}");
    let marker = scene.root.join("out/fickle");
    let script = scene.root.join(".glee/tools/fickle/run.sh");
    let yml = scene.root.join(".glee/tools/fickle/tool.yml");
    let new = scene.root.join(".glee/tools/fickle/new.txt");
    let (was_script, was_yml) = (fs::read(&script).unwrap(), fs::read(&yml).unwrap());
    let longer = |was: &[u8]| [was, b"# more\n"].concat();
    let changes = [
        ("the script", &script, longer(&was_script)),
        ("the manifest", &yml, longer(&was_yml)),
        ("another file", &new, b"x".to_vec()),
    ];
    for (what, path, bytes) in changes {
        fs::remove_file(&marker).unwrap();
        fs::write(path, bytes).unwrap();
        let (ran, text) = agent.call("glee_tool", json!({"name": "fickle"}));
        assert!(
            !ran && text.starts_with("APPROVAL_REQUIRED"),
            "{what}: {text}"
        );
        let output = scene.glee(&["run", "fickle"]);
        assert_eq!(output.status.code(), Some(3), "{what}");
        assert!(!marker.exists(), "{what}");
        eventually("agents no longer see it", || {
            !shown(&mut agent).contains("fickle")
        });
        // What was approved is approved.
        fs::write(&script, &was_script).unwrap();
        fs::write(&yml, &was_yml).unwrap();
        let _ = fs::remove_file(&new);
        eventually("agents see it again", || {
            shown(&mut agent).contains("fickle")
        });
        let (ran, text) = agent.call("glee_tool", json!({"name": "fickle"}));
        assert!(ran, "{what}: {text}");
    }
}

/// A manifest that cannot be read leaves no last good version of an agent's tool.
#[test]
fn t2_a_broken_manifest_leaves_nothing_to_call() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    agent.make_stamp("broken");
    relax(&scene, "broken");
    approve(&scene, "broken");
    eventually("agents see it", || shown(&mut agent).contains("broken"));
    scene.write(".glee/tools/broken/tool.yml", "name: [");
    let (ran, text) = agent.call("glee_tool", json!({"name": "broken"}));
    assert!(!ran, "{text}");
    eventually("agents no longer see it", || {
        !shown(&mut agent).contains("broken")
    });
    let (ran, text) = agent.call("glee_tool", json!({"name": "broken"}));
    assert!(!ran && !exists(&scene, "out/broken"), "{text}");
}

/// An entrypoint that stands elsewhere is part of what was seen, too.
#[test]
fn ai_07_what_a_tool_runs_elsewhere_is_shown_and_held() {
    let scene = scene();
    scene.write("src/run.sh", "#!/bin/sh\ntouch out/elsewhere\n");
    let mut definition = stamp("elsewhere");
    definition["exec"]["command"] = json!({"entrypoint": "src/run.sh"});
    let (made, text) = Agent::of(&scene).create("elsewhere", definition);
    assert!(made, "{text}");
    relax(&scene, "elsewhere");
    let screen = approve(&scene, "elsewhere");
    assert!(
        screen.contains("src/run.sh:\n  #!/bin/sh\n  touch out/elsewhere\n"),
        "{screen}"
    );
    scene.write("src/run.sh", "#!/bin/sh\ntouch out/other\n");
    let output = scene.glee(&["run", "elsewhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!exists(&scene, "out/other") && !exists(&scene, "out/elsewhere"));
}

/// A file that is one thing and another in turns is shown as what its digest stands for.
#[test]
fn ap_03_what_is_shown_is_what_is_decided_about() {
    let scene = scene();
    Agent::of(&scene).make_stamp("flips");
    let own = scene.root.join(".glee/tools/flips");
    let good = fs::read_to_string(own.join("run.sh")).unwrap();
    let other = "#!/bin/sh\ntouch out/other\n";
    let app = app(&scene);
    let look = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let looked = runtime
            .unwrap()
            .block_on(app.look("flips", &caller("user")));
        let look = looked.unwrap();
        let file = look.files.iter().find(|it| it.name == "run.sh").unwrap();
        let Body::Text(text) = &file.body else {
            panic!("{file:?}")
        };
        (look.digest.clone(), text.clone())
    };
    let put = |text: &str| {
        fs::write(scene.root.join("next"), text).unwrap();
        fs::rename(scene.root.join("next"), own.join("run.sh")).unwrap();
    };
    put(other);
    let of_other = look();
    put(&good);
    let of_good = look();
    assert_ne!(of_good.0, of_other.0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                put(other);
                put(&good);
            }
        });
        let looked: Vec<_> = (0..500).map(|_| look()).collect();
        done.store(true, Ordering::Relaxed);
        for seen in looked {
            assert!(seen == of_good || seen == of_other, "{seen:?}");
        }
    });
}

/// A person who is asked about a call takes their time; what runs then is still what was approved.
#[test]
fn ai_07_a_file_that_changes_while_a_person_thinks_does_not_run() {
    let scene = scene();
    Agent::of(&scene).make_stamp("slow");
    approve(&scene, "slow");
    let script = scene.root.join(".glee/tools/slow/run.sh");
    let changes = move || fs::write(&script, "#!/bin/sh\ntouch out/slow\n# more\n").unwrap();
    let app = App::open(
        scene.project(),
        glee::app::Wiring {
            approver: std::sync::Arc::new(Meanwhile(changes)),
            ..wiring(BTreeMap::new(), Answer::Approved)
        },
    )
    .unwrap();
    let call = glee::app::Call {
        tool: "slow".into(),
        args: serde_json::Map::new(),
        caller: caller("user"),
        timeout: None,
        cancel: glee_core::port::Cancel::never(),
        party: std::sync::Arc::new(glee_core::port::Waits),
        approval: None,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(app.call(call));
    let failure = outcome.result.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ApprovalRequired);
    assert!(!exists(&scene, "out/slow"));
}

struct Meanwhile<F>(F);

impl<F: Fn() + Send + Sync> glee_core::port::Approver for Meanwhile<F> {
    fn ask<'a>(
        &'a self,
        _: &'a glee_core::port::Question<'a>,
    ) -> glee_core::port::Later<'a, Answer> {
        (self.0)();
        Box::pin(async { Answer::Approved })
    }
}

/// A yes is for what was looked at, and whoever made the tool has no say.
#[test]
fn t2_a_decision_is_about_what_was_seen_and_not_the_makers() {
    let scene = scene();
    Agent::of(&scene).make_stamp("seen");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = app(&scene);
    let look = runtime.block_on(app.look("seen", &caller("user"))).unwrap();
    let decide = |digest: &str, by: &str| app.rule_on("seen", digest, &caller(by), Ruling::Approve);
    let own = decide(&look.digest, "mcp").unwrap_err();
    assert_eq!(own.kind, FailureKind::PermissionDenied);
    scene.write(".glee/tools/seen/run.sh", "#!/bin/sh\ntouch out/other\n");
    let other = decide(&look.digest, "user").unwrap_err();
    assert_eq!(other.kind, FailureKind::Conflict);
    assert_eq!(record(&scene, "seen")["decision"], Value::Null);
    let look = runtime.block_on(app.look("seen", &caller("user"))).unwrap();
    decide(&look.digest, "user").unwrap();
    assert_eq!(record(&scene, "seen")["decision"]["approved"], true);
}

#[test]
fn t2_a_review_tells_what_is_new() {
    let scene = scene();
    Agent::of(&scene).make_stamp("grown");
    approve(&scene, "grown");
    let text = manifest(&scene, "grown").replace("write: [out]", "write: [out]\n    read: [src]");
    let text = text.replace("Print a word", "Print two words");
    scene.write(".glee/tools/grown/tool.yml", &text);
    scene.write(".glee/tools/grown/run.sh", "#!/bin/sh\n");
    scene.write(".glee/tools/grown/more.txt", "a\u{202e}b\x1b[2J");
    let (screen, code) = at_a_terminal(&scene, "tools review grown", "");
    assert_eq!(code, 0, "{screen}");
    for part in [
        "It waits for review.",
        "new: reads src",
        "the description is now: Print two words",
        "changed: the file run.sh",
        "new: the file more.txt",
        "+     read: [src]",
        "a\\u{202e}b\\u{1b}[2J",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let look = support::json(&scene.glee(&["tools", "review", "grown", "--json"]));
    assert_eq!(look["review"], "pending");
    assert_eq!(look["authority"]["reads"], "src");
}

/// Permissions can be taken away, and not added.
#[test]
fn t2_a_person_may_edit_a_tool_down() {
    let scene = scene();
    let mut agent = Agent::of(&scene);
    let mut definition = stamp("edited");
    definition["permissions"] = json!({"fs": {"read": ["src"], "write": ["out"]}});
    let files = json!({"run.sh": "#!/bin/sh\ntouch out/edited\n"});
    let (made, text) = agent.create_with("edited", definition, files);
    assert!(made, "{text}");
    let before = manifest(&scene, "edited");
    let edit = |with: &str| {
        let editor = scene.root.join("editor");
        scene.write("editor", &format!("#!/bin/sh\nsed -i '{with}' \"$1\"\n"));
        let command = format!(
            "unset VISUAL; EDITOR={} {} tools review edited --edit",
            editor.display(),
            support::GLEE
        );
        support::talk_on_a_terminal(&scene, &command, &[("[y/N] ", "y\n")])
    };
    for (with, why) in [
        (
            "s/read: \\[src\\]/read: [src, out]/",
            "more than the agent asked for: read out",
        ),
        (
            "s/read: \\[src\\]/read: [.]/",
            "more than the agent asked for: read .",
        ),
        ("s/version: 1/version: one/", "the manifest cannot be used"),
    ] {
        let (_, screen, asked) = edit(with);
        assert!(screen.contains(why) && asked == 0, "{screen}");
        assert_eq!(manifest(&scene, "edited"), before);
    }
    let (code, screen, _) = edit("s/read: \\[src\\]/read: []/");
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(
        manifest(&scene, "edited"),
        before.replace("read: [src]", "read: []")
    );
    assert_eq!(record(&scene, "edited")["decision"]["approved"], true);
}

/// Above the ceiling there is nothing to approve.
#[test]
fn ai_02_what_is_beyond_the_ceiling_cannot_be_approved() {
    let scene = scene();
    assert!(
        Agent::of(&scene)
            .create("grown", plain(json!({"fs": {"read": ["src"]}})))
            .0
    );
    let text = manifest(&scene, "grown").replace("[src]", "[src, out]");
    scene.write(".glee/tools/grown/tool.yml", &text);
    let (screen, code) = at_a_terminal(&scene, "tools review grown --approve", "y\n");
    assert_eq!(code, 3, "{screen}");
    assert!(
        screen.contains("beyond security.max_permissions: read out"),
        "{screen}"
    );
    assert_eq!(record(&scene, "grown")["decision"], Value::Null);
}

/// Over REST: by a token that may decide, about what it has seen, and never by the maker's own.
#[test]
fn t2_a_program_of_a_person_decides_over_rest() {
    let scene = scene();
    let alice = glee(&scene, &["token", "create", "alice", "--scope", "approve"]);
    let agent = glee(&scene, &["token", "create", "agent"]);
    let scopes = [
        "--scope",
        "approve",
        "--scope",
        "invoke_tool",
        "--scope",
        "write_registry",
    ];
    let maker = glee(
        &scene,
        &[&["token", "create", "maker"], &scopes[..]].concat(),
    );
    let served = Served::guarded(&scene);
    let files = json!({"run.sh": "#!/bin/sh\ntouch out/made\n"});
    let args = json!({"name": "made", "definition": stamp("made"), "files": files});
    let call = json!({"name": "glee_tool_create", "arguments": args});
    let answer = served
        .call_as(Some(&maker), 1, "tools/call", call)
        .message();
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    let ask = |token: &str, method: &str, path: &str, body: Value| {
        let reply = served.rest(&format!("{method} {path}"), token, &[], &body);
        let said: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        (reply.status, said)
    };
    for (method, path) in [
        ("GET", "/reviews"),
        ("GET", "/reviews/made"),
        ("POST", "/reviews/made/approve"),
        ("POST", "/reviews/made/deny"),
    ] {
        let body = json!({"digest": "x", "reason": "y"});
        assert_eq!(ask("nobody", method, path, body.clone()).0, 401, "{path}");
        let (status, said) = ask(&agent, method, path, body);
        assert!(status == 403 || status == 400, "{path}: {said}");
    }
    let (status, said) = ask(&alice, "GET", "/reviews", Value::Null);
    assert_eq!(
        (status, &said["reviews"][0]["review"]),
        (200, &json!("pending")),
        "{said}"
    );
    let (_, said) = ask(&alice, "GET", "/reviews/made", Value::Null);
    let review = &said["review"];
    assert_eq!(
        review["files"][0]["text"], "#!/bin/sh\ntouch out/made\n",
        "{said}"
    );
    let seen = json!({"digest": review["digest"]});
    let (status, said) = ask(&maker, "POST", "/reviews/made/approve", seen.clone());
    assert_eq!(status, 403, "{said}");
    let (status, said) = ask(&agent, "POST", "/reviews/made/approve", seen.clone());
    assert_eq!(status, 403, "{said}");
    let other = json!({"digest": "0".repeat(64)});
    assert_eq!(ask(&alice, "POST", "/reviews/made/approve", other).0, 409);
    assert_eq!(
        ask(&alice, "POST", "/reviews/made/approve", json!({})).0,
        400
    );
    assert_eq!(ask(&alice, "GET", "/reviews/nothing", Value::Null).0, 404);
    // Editing down needs more than a say, and not the maker's.
    let before = manifest(&scene, "made");
    let less = before.replace("write: [out]", "write: []");
    assert_ne!(less, before);
    let more = before.replace("write: [out]", "write: [out, src]");
    let put = |text: &str| json!({"digest": review["digest"], "manifest": text});
    let writing = ["--scope", "write_registry"];
    let both = [&["--scope", "approve"], &writing[..]].concat();
    let token = |name: &str, scopes: &[&str]| {
        let token = glee(&scene, &[&["token", "create", name], scopes].concat());
        eventually("the token is known", || served.admits(&token));
        token
    };
    let (writer, editor) = (token("writer", &writing), token("editor", &both));
    for (who, text, status) in [
        (&alice, &less, 403),
        (&maker, &less, 403),
        (&writer, &less, 403),
        (&editor, &more, 403),
    ] {
        let (found, said) = ask(who, "POST", "/reviews/made/edit", put(text));
        assert_eq!(found, status, "{said}");
        assert_eq!(manifest(&scene, "made"), before);
    }
    let stale = json!({"digest": "0".repeat(64), "manifest": less});
    assert_eq!(ask(&editor, "POST", "/reviews/made/edit", stale).0, 409);
    assert_eq!(manifest(&scene, "made"), before);
    let (status, said) = ask(&editor, "POST", "/reviews/made/edit", put(&less));
    assert_eq!((status, manifest(&scene, "made")), (200, less), "{said}");
    // What was seen before is not what is there now.
    assert_eq!(
        ask(&alice, "POST", "/reviews/made/approve", seen.clone()).0,
        409
    );
    let (_, said) = ask(&alice, "GET", "/reviews/made", Value::Null);
    let seen = json!({"digest": said["review"]["digest"]});
    assert_eq!(record(&scene, "made")["decision"], Value::Null);
    let (status, said) = ask(&alice, "POST", "/reviews/made/approve", seen.clone());
    assert_eq!(status, 200, "{said}");
    assert_eq!(record(&scene, "made")["decision"]["by"], "alice");
    let denial = json!({"digest": seen["digest"], "reason": "after all"});
    assert_eq!(ask(&alice, "POST", "/reviews/made/deny", denial).0, 200);
    let output = scene.glee(&["run", "made", "--json"]);
    assert_eq!(support::json(&output)["error"]["code"], "APPROVAL_DENIED");
}
