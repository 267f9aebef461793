//! The ways to answer: at a terminal, for longer than once, through a client, or for somebody who waits.

use std::process::{Command, Stdio};

use glee::approve::ledger::Decision;
use glee::store::record::{Said, State};
use glee_core::port::{Answer, Lasting};
use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::{Stage, code, refused};
use crate::mcp::server::{Pipes, eventually, modern};
use crate::support::{GLEE, json as output_json, on_a_terminal, stderr, stdout};

const PROMPT: &str = "[y/s/a/e/N] ";

/// What the person typed decides; anything unclear is a no.
#[test]
fn ap_11_at_the_terminal_the_default_is_no() {
    let edit = "{\"name\": \"b\"}\n";
    let inline = "one line of JSON: ";
    for (talk, ran, status) in [
        (vec![(PROMPT, "y\n")], vec!["a"], 0),
        (vec![(PROMPT, "S\n")], vec!["a"], 0),
        (vec![(PROMPT, "a\n")], vec!["a"], 0),
        (vec![(PROMPT, "e\n"), (inline, edit)], vec!["b"], 0),
        (vec![(PROMPT, "e\n"), (inline, "[]\n")], vec![], 3),
        (
            vec![(PROMPT, "e\n"), (inline, "{\"name\": 5}\n")],
            vec![],
            2,
        ),
        (vec![(PROMPT, "\n")], vec![], 3),
        (vec![(PROMPT, "maybe\n")], vec![], 3),
        (vec![(PROMPT, "n not on a Friday\n")], vec![], 3),
    ] {
        let stage = Stage::new();
        let command = format!("env -u EDITOR {GLEE} run stamp -p name=a");
        let (found, screen) = on_a_terminal(&stage.scene, &command, &talk);
        assert_eq!(stage.ran(), ran, "{talk:?}: {screen}");
        assert_eq!(found, Some(status), "{talk:?}: {screen}");
        assert!(
            screen.contains("user wants to run `stamp`: it writes"),
            "{screen}"
        );
        let is_reasoned = talk[0].1.starts_with("n ");
        assert_eq!(
            screen.contains("not on a Friday ["),
            is_reasoned,
            "{screen}"
        );
    }
}

/// A person answers what they have read: what was typed before the question stood there is no answer.
#[test]
fn ap_11_what_was_typed_ahead_is_no_answer() {
    let stage = Stage::new();
    let command = format!("echo go; read go; exec {GLEE} run stamp -p name=a");
    let talk = [("go\r\n", "go\ny\ny\n"), (PROMPT, "\n")];
    let (status, screen) = on_a_terminal(&stage.scene, &command, &talk);
    assert_eq!(stage.ran(), Vec::<String>::new(), "{screen}");
    assert_eq!(status, Some(3), "{screen}");
}

/// A text that reads like a number is not one, and whoever approves it can tell.
#[test]
fn ap_09_a_text_is_told_from_a_number() {
    let stage = Stage::new();
    let app = stage.app();
    for (name, shown) in [("9", "name = \"9\""), ("nine", "name = nine")] {
        let id = stage.asked(&app, name).to_string();
        let text = stdout(&stage.scene.glee(&["approvals", "show", &id]));
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

/// The person sees every character of what they approve, also here.
#[test]
fn ap_09_hidden_text_is_shown() {
    let stage = Stage::new();
    let app = stage.app();
    let name = format!("gnp.\u{202e}{}\u{200b}\u{1b}[2Jend", "y".repeat(5000));
    let id = stage.asked(&app, &name).to_string();
    let shown = stage.scene.glee(&["approvals", "show", &id]);
    let text = stdout(&shown);
    for part in [
        "\\u{202e}",
        "\\u{200b}\\u{1b}[2Jend",
        "writing out",
        "agent wants",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{text}");
}

/// A yes needs a person; a program that can run commands is none.
#[test]
fn ap_06_without_a_terminal_nobody_says_yes() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    let words = ["approvals", "approve", &id.to_string()];
    let refused = stage.scene.glee_with(&words, &Default::default(), "y\n");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("person at a terminal"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(stage.state(&app, id), State::Pending);
    // A no is anybody's.
    let no = ["approvals", "deny", &id.to_string(), "--reason", "because"];
    let denied = stage.scene.glee(&no);
    assert!(denied.status.success(), "{}", stderr(&denied));
    assert_eq!(stage.state(&app, id), State::Denied);
}

#[test]
fn a_person_approves_what_waits() {
    let stage = Stage::new();
    let app = stage.app();
    for (typed, flags, state) in [
        ("\n", "", State::Pending),
        ("y\n", "--modify '{\"name\": 5}'", State::Pending),
        ("y\n", "--modify '{\"name\": \"b\"}'", State::Approved),
    ] {
        let id = stage.asked(&app, "a");
        let command = format!("{GLEE} approvals approve {id} {flags}");
        let (_, screen) = on_a_terminal(&stage.scene, &command, &[("[y/N] ", typed)]);
        assert_eq!(stage.state(&app, id), state, "{flags}: {screen}");
        if state == State::Approved {
            let run = on_a_terminal(
                &stage.scene,
                &format!("{GLEE} approvals list --state approved"),
                &[],
            );
            assert!(run.1.contains(&id.to_string()), "{}", run.1);
        }
    }
    // Whoever asked only has to ask again.
    let outcome = stage.call(&app, json!({"name": "a"}), None);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    assert_eq!(stage.ran(), ["b"]);
}

/// For this caller and this very tool, with any arguments, while the process lives.
#[test]
fn a_yes_for_the_session() {
    let stage = Stage::new();
    let (app, asked) = stage.answering(Answer::Lasting(Lasting::Session));
    for name in ["a", "b", "c"] {
        assert_eq!(code(&stage.call(&app, json!({"name": name}), None)), "ok");
    }
    assert_eq!(asked.count(), 1);
    stage.call_as(&app, "other", "stamp", json!({"name": "d"}), None);
    assert_eq!(asked.count(), 2, "another caller was not asked about");
    let script = std::fs::read_to_string(stage.script()).unwrap();
    stage.scene.write("stamp.sh", &format!("{script}# other\n"));
    stage.call(&app, json!({"name": "e"}), None);
    assert_eq!(asked.count(), 3, "another tool was not asked about");
    // Another process asks for itself.
    refused(
        &stage.call(&stage.app(), json!({"name": "f"}), None),
        "APPROVAL_REQUIRED",
    );
}

/// What was answered elsewhere holds for the session of whoever uses it.
#[test]
fn a_yes_for_the_session_from_elsewhere() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    stage
        .app()
        .decide(id, Decision::approve(Said::Session), "bob")
        .unwrap();
    refused(
        &stage.call(&app, json!({"name": "b"}), None),
        "APPROVAL_REQUIRED",
    );
    for (name, approval) in [("a", Some(id)), ("b", None), ("c", None)] {
        assert_eq!(
            code(&stage.call(&app, json!({"name": name}), approval)),
            "ok",
            "{name}"
        );
    }
}

/// A yes to everything else does not take back the no to one call.
#[test]
fn a_no_stays_under_a_yes_for_the_session() {
    let stage = Stage::new();
    let app = stage.app();
    let (yes, no) = (stage.asked(&app, "a"), stage.asked(&app, "b"));
    let reason = "not that one".to_owned();
    app.decide(no, Decision::Deny { reason }, "bob").unwrap();
    app.decide(yes, Decision::approve(Said::Session), "bob")
        .unwrap();
    assert_eq!(
        code(&stage.call(&app, json!({"name": "a"}), Some(yes))),
        "ok"
    );
    assert_eq!(code(&stage.call(&app, json!({"name": "c"}), None)), "ok");
    refused(
        &stage.call(&app, json!({"name": "b"}), None),
        "APPROVAL_DENIED",
    );
    assert_eq!(stage.ran(), ["a", "c"]);
}

/// Written as a rule that says what it covers; it turns a question into a yes, never a no.
#[test]
fn a_yes_for_always() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    app.decide(id, Decision::approve(Said::Always), "bob")
        .unwrap();
    let rules = std::fs::read_to_string(stage.scene.root.join(".glee/rules.yml")).unwrap();
    for part in [
        "# said by bob at",
        "it writes",
        "tool: \"stamp\"",
        "caller: \"agent\"",
        "\"name\":\"a\"",
    ] {
        assert!(rules.contains(part), "{part}: {rules}");
    }
    assert!(stage.scene.glee(&["lint"]).status.success());
    let listed = stdout(&stage.scene.glee(&["rules", "list"]));
    assert!(
        listed.contains("need not ask: `stamp` called by agent"),
        "{listed}"
    );
    // The yes itself, and then the rule, also for those who open the project later.
    for app in [&app, &app, &stage.app()] {
        assert_eq!(code(&stage.call(app, json!({"name": "a"}), None)), "ok");
    }
    assert_eq!(stage.ran(), ["a", "a", "a"]);
    let count = app.approvals().list().unwrap().len();
    assert_eq!(count, 1, "what need not ask was asked");
    let asks = |caller: &str, args: Value| {
        let outcome = stage.call_as(&app, caller, "stamp", args, None);
        refused(&outcome, "APPROVAL_REQUIRED");
    };
    asks("agent", json!({"name": "b"}));
    asks("agent", json!({"name": "a", "times": 2}));
    asks("other", json!({"name": "a"}));
    // Never a no.
    let deny = "rules: [{name: never, tools: [stamp], decision: deny}]\n";
    stage.scene.write(".glee/config.yml", deny);
    refused(
        &stage.call(&stage.app(), json!({"name": "a"}), None),
        "RULE_DENIED",
    );
    std::fs::remove_file(stage.scene.root.join(".glee/config.yml")).unwrap();
    // Nor for a tool that is another one now.
    let script = std::fs::read_to_string(stage.script()).unwrap();
    stage.scene.write("stamp.sh", &format!("{script}# other\n"));
    asks("agent", json!({"name": "a"}));
    assert_eq!(stage.ran().len(), 3);
}

#[test]
fn a_yes_for_always_with_a_pattern() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked_by_user(&app, "notes/a");
    let command = format!("{GLEE} approvals approve {id} --scope always --fitting 'name=notes/*'");
    let (status, screen) = on_a_terminal(&stage.scene, &command, &[("[y/N] ", "y\n")]);
    assert_eq!(status, Some(0), "{screen}");
    let check = |name: &str| {
        let param = format!("name={name}");
        let checked = stage
            .scene
            .glee(&["rules", "check", "stamp", "-p", &param, "--json"]);
        output_json(&checked)["decision"].clone()
    };
    assert_eq!(check("notes/b"), "allow");
    assert_eq!(check("other"), "ask");
    assert_eq!(check("notes/../other"), "ask");
    let run = |name: &str| {
        let param = format!("name={name}");
        stage
            .scene
            .glee(&["run", "stamp", "-p", &param])
            .status
            .code()
    };
    assert_eq!(run("notes/b"), Some(0));
    assert_eq!(run("other"), Some(3));
    assert_eq!(stage.ran(), ["notes/b"]);
}

/// Who takes the rule out takes back the yes it came from, which may still be waiting to be used.
#[test]
fn a_yes_for_always_that_was_taken_back() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    app.decide(id, Decision::approve(Said::Always), "bob")
        .unwrap();
    std::fs::remove_file(stage.scene.root.join(".glee/rules.yml")).unwrap();
    app.reload().unwrap();
    let failure = refused(&stage.call(&app, json!({}), Some(id)), "CONFLICT");
    assert!(failure.message.contains("rules.yml"), "{}", failure.message);
    let anew = stage.call(&app, json!({"name": "a"}), None);
    refused(&anew, "APPROVAL_REQUIRED");
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// What nobody could look up later was not answered.
#[test]
fn ad_03_an_answer_that_cannot_be_recorded_is_told_so() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    let audit = stage.scene.root.join(".glee/audit");
    std::fs::remove_dir_all(&audit).unwrap();
    std::fs::write(&audit, "").unwrap();
    // Another process, which has nothing open yet.
    let decided = stage.app().decide(id, Decision::approve(Said::Once), "bob");
    let failure = decided.unwrap_err();
    assert_eq!(failure.kind.code(), "AUDIT_UNAVAILABLE", "{failure:?}");
    let outcome = stage.call(&stage.app(), json!({}), Some(id));
    refused(&outcome, "AUDIT_UNAVAILABLE");
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// What is broken allows nothing.
#[test]
fn rules_that_cannot_be_read_allow_nothing() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.asked(&app, "a");
    app.decide(id, Decision::approve(Said::Always), "bob")
        .unwrap();
    assert_eq!(code(&stage.call(&app, json!({"name": "a"}), None)), "ok");
    let path = stage.scene.root.join(".glee/rules.yml");
    let rules = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{rules}    colour: red\n")).unwrap();
    assert!(app.reload().is_err());
    refused(
        &stage.call(&app, json!({"name": "a"}), None),
        "APPROVAL_REQUIRED",
    );
    let lint = stage.scene.glee(&["lint"]);
    assert_eq!(lint.status.code(), Some(1));
    assert!(
        stdout(&lint).contains(".glee/rules.yml"),
        "{}",
        stdout(&lint)
    );
    // Taken out, it asks again.
    std::fs::write(&path, "").unwrap();
    app.reload().unwrap();
    refused(
        &stage.call(&app, json!({"name": "a"}), None),
        "APPROVAL_REQUIRED",
    );
    assert_eq!(stage.ran(), ["a"]);
}

/// An agent that nobody could be asked for comes back with the id, exactly once.
#[test]
fn an_agent_comes_back_with_the_id() {
    let stage = Stage::new();
    stage
        .scene
        .write(".glee/config.yml", "approvals: {elicitation: off}\n");
    let mut pipes = Pipes::start(&stage.scene);
    let mut call = |arguments: Value| {
        let params = json!({"name": "glee_tool", "arguments": arguments});
        pipes.ask(json!(1), "tools/call", modern(params))["result"].clone()
    };
    let asked = call(json!({"name": "stamp", "params": {"name": "a"}}));
    let text = asked["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("APPROVAL_REQUIRED"), "{asked}");
    let app = stage.app();
    let id = app.approvals().list().unwrap()[0].id;
    assert!(text.contains(&id.to_string()), "{text}");
    let resume = json!({"name": "stamp", "approval_id": id.to_string()});
    let early = call(resume.clone());
    assert!(early.to_string().contains("APPROVAL_REQUIRED"), "{early}");
    app.decide(id, Decision::approve(Said::Once), "bob")
        .unwrap();
    let other =
        call(json!({"name": "stamp", "params": {"name": "b"}, "approval_id": id.to_string()}));
    assert!(other.to_string().contains("APPROVAL_REQUIRED"), "{other}");
    assert_eq!(stage.ran(), Vec::<String>::new());
    let answer = call(resume.clone());
    assert_eq!(answer["isError"], false, "{answer}");
    let twice = call(resume);
    assert!(twice.to_string().contains("CONFLICT"), "{twice}");
    for wrong in [Uuid::now_v7().to_string(), "nonsense".to_owned()] {
        let answer = call(json!({"name": "stamp", "approval_id": wrong}));
        assert_eq!(answer["isError"], true, "{answer}");
    }
    assert_eq!(stage.ran(), ["a"]);
}

/// `glee run --wait`: somebody answers while the command waits.
#[test]
fn a_run_waits_for_the_answer() {
    for (yes, status) in [(true, 0), (false, 3)] {
        let stage = Stage::new();
        let app = stage.app();
        let mut waiting = Command::new(GLEE)
            .args(["run", "stamp", "-p", "name=a", "--wait", "600"])
            .current_dir(&stage.scene.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it is asked", || {
            !app.approvals().list().unwrap().is_empty()
        });
        let id = app.approvals().list().unwrap()[0].id;
        let decision = match yes {
            true => Decision::approve(Said::Once),
            false => Decision::Deny {
                reason: "no".into(),
            },
        };
        app.decide(id, decision, "bob").unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(status));
        assert_eq!(stage.ran().len(), usize::from(yes));
    }
}
