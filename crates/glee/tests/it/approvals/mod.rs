//! Approvals: what a person is asked is kept, bound to what they saw, and good for one run. The tool
//! leaves a line behind each time it runs, so that it can be seen how often that was.

mod answers;
mod crash;
mod rest;
mod stage;

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::time::Duration;

use glee::approve::ledger::Decision;
use glee::store::record::{Said, State};
use glee_core::port::Answer;

use crate::support::long;
use stage::{Stage, code, id_of, refused};

/// Whatever differs from what was approved, nothing runs by it.
#[test]
fn ap_01_a_yes_is_for_the_call_that_was_shown() {
    let stage = Stage::new();
    stage.scene.write(
        ".glee/tools/other/tool.yml",
        &stage::TOOL.replace("name: stamp", "name: other"),
    );
    let app = stage.app();
    let id = stage.approved(&app, "a");
    for (tool, args, caller, expected) in [
        ("stamp", json!({"name": "b"}), "agent", "APPROVAL_REQUIRED"),
        (
            "stamp",
            json!({"name": "a", "n": 1}),
            "agent",
            "APPROVAL_REQUIRED",
        ),
        (
            "stamp",
            json!({"name": ["a"]}),
            "agent",
            "APPROVAL_REQUIRED",
        ),
        ("other", json!({"name": "a"}), "agent", "APPROVAL_REQUIRED"),
        ("stamp", json!({"name": "a"}), "mallory", "NOT_FOUND"),
    ] {
        let outcome = stage.call_as(&app, caller, tool, args.clone(), Some(id));
        let found = code(&outcome);
        // What is not even valid is refused for that.
        assert!(
            found == expected || found == "INVALID_INPUT",
            "{tool} {args} {caller}: {found}"
        );
        assert_eq!(stage.ran(), Vec::<String>::new(), "{tool} {args} {caller}");
    }
    // The right one still can be made, with its arguments or without.
    let outcome = stage.call(&app, json!({}), Some(id));
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    assert_eq!(stage.ran(), ["a"]);
}

#[test]
fn ap_01_a_question_asked_anew_says_what_changed() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.approved(&app, "a");
    let outcome = stage.call(&app, json!({"name": "b"}), Some(id));
    let failure = refused(&outcome, "APPROVAL_REQUIRED");
    assert!(
        failure.message.contains("other arguments were approved"),
        "{}",
        failure.message
    );
    let anew = id_of(&failure);
    assert_ne!(anew, id);
    assert_eq!(stage.state(&app, anew), State::Pending);
    assert_eq!(stage.state(&app, id), State::Approved);
}

/// Arguments that a person chooses are held to all that the caller's own are held to, and only they run.
#[test]
fn ap_02_other_arguments_are_judged_again() {
    let stage = Stage::new();
    stage.scene.write(
        ".glee/config.yml",
        "rules: [{name: never, when: {arguments: {name: {equals: evil}}}, decision: deny}]\n",
    );
    let app = stage.app();
    let id = stage.asked(&app, "a");
    let choose = |args: Value| {
        let decision = Decision::Approve {
            scope: Said::Once,
            modified: args.as_object().cloned(),
            patterns: Vec::new(),
        };
        app.decide(id, decision, "bob")
    };
    for (args, expected) in [
        (json!({"name": 5}), "INVALID_INPUT"),
        (json!({}), "INVALID_INPUT"),
        (json!({"name": "evil"}), "RULE_DENIED"),
    ] {
        assert_eq!(
            choose(args.clone()).unwrap_err().kind.code(),
            expected,
            "{args}"
        );
        assert_eq!(stage.state(&app, id), State::Pending, "{args}");
    }
    let record = choose(json!({"name": "b"})).unwrap();
    assert_eq!(record.state, State::Approved);
    let modified = record.answer.unwrap().modified_args.unwrap();
    assert_eq!(Value::Object(modified), json!({"name": "b", "times": 1}));
    let outcome = stage.call(&app, json!({"name": "a"}), Some(id));
    let output = outcome.result.unwrap();
    assert_eq!(stage.ran(), ["b"]);
    assert!(
        output.warnings[0].contains("a person changed the arguments"),
        "{output:?}"
    );
}

/// What a rule says when the call is made counts, also when a person chose the arguments before.
#[test]
fn ap_02_a_denial_counts_at_the_run_too() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.approved(&app, "a");
    stage.scene.write(
        ".glee/config.yml",
        "rules: [{name: never, when: {arguments: {name: {equals: a}}}, decision: deny}]\n",
    );
    let outcome = stage.call(&stage.app(), json!({}), Some(id));
    refused(&outcome, "RULE_DENIED");
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// Nobody has to notice the change first: what is on disk when the call is made counts.
#[test]
fn ap_03_a_tool_that_changed_is_not_what_was_approved() {
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.approved(&app, "a");
    let good = std::fs::read_to_string(stage.script()).unwrap();
    stage.scene.write("stamp.sh", &good.replace("ran", "evil"));
    let outcome = stage.call(&app, json!({}), Some(id));
    let failure = refused(&outcome, "APPROVAL_REQUIRED");
    assert!(
        failure.message.contains("the tool's files"),
        "{}",
        failure.message
    );
    assert!(!stage.scene.root.join("out/evil").exists());
    // Nor when it is changed back: whoever could do the one could do the other.
    stage.scene.write("stamp.sh", &good);
    let outcome = stage.call(&app, json!({}), Some(id));
    refused(&outcome, "CONFLICT");
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// An entrypoint that leads to one of the tool's own files stays with that one.
#[test]
fn ap_03_an_entrypoint_that_is_turned_is_not_what_was_approved() {
    let stage = Stage::new();
    let script = stage.script();
    let own = stage.scene.root.join(".glee/tools/stamp");
    let good = std::fs::read_to_string(&script).unwrap();
    std::fs::rename(&script, own.join("a.sh")).unwrap();
    std::fs::copy(own.join("a.sh"), own.join("b.sh")).unwrap();
    std::fs::write(own.join("b.sh"), good.replace("ran", "evil")).unwrap();
    symlink(own.join("a.sh"), &script).unwrap();
    let app = stage.app();
    let id = stage.approved(&app, "a");
    std::fs::remove_file(&script).unwrap();
    symlink(own.join("b.sh"), &script).unwrap();
    let outcome = stage.call(&app, json!({}), Some(id));
    refused(&outcome, "APPROVAL_REQUIRED");
    assert!(!stage.scene.root.join("out/evil").exists());
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// Between the question and the answer, and between the answer and the run.
#[test]
fn ap_03_a_tool_that_changes_meanwhile_does_not_run() {
    for when in [stage::When::Asked, stage::When::Approved] {
        let stage = Stage::new();
        let app = stage.changing(when);
        let outcome = stage.call(&app, json!({"name": "a"}), None);
        refused(&outcome, "APPROVAL_REQUIRED");
        assert_eq!(stage.ran(), Vec::<String>::new(), "{when:?}");
        assert!(!stage.scene.root.join("out/evil").exists(), "{when:?}");
    }
}

/// Also when its interpreter takes its time to open it, and its name leads elsewhere by then.
#[test]
fn ap_03_a_script_that_is_replaced_while_it_starts_runs_as_it_was_approved() {
    let stage = Stage::new();
    let root = &stage.scene.root;
    let open = stage::TOOL.replace("fs: {write: [out]}", "fs: {read: [.], write: [out]}");
    stage.scene.write(".glee/tools/stamp/tool.yml", &open);
    let wait = ": > out/begun; while ! [ -e out/on ]; do sleep 0.01; done; exec /bin/sh \"$@\"";
    stage
        .scene
        .write("slow.sh", &format!("#!/bin/sh\n{wait}\n"));
    let text = format!("#!{}/slow.sh\necho \"$1\" >> out/ran\n", root.display());
    stage.scene.write("stamp.sh", &text);
    stage
        .scene
        .write("evil.sh", &text.replace("out/ran", "out/evil"));
    let app = stage.app();
    let id = stage.approved(&app, "a");
    let outcome = std::thread::scope(|scope| {
        let call = scope.spawn(|| stage.call(&app, json!({}), Some(id)));
        while !root.join("out/begun").exists() && !call.is_finished() {
            std::thread::yield_now();
        }
        std::fs::rename(root.join("evil.sh"), stage.script()).unwrap();
        stage.scene.write("out/on", "");
        call.join().unwrap()
    });
    outcome.result.unwrap();
    assert_eq!(stage.ran(), ["a"]);
    assert!(!root.join("out/evil").exists());
}

/// A yes in one project is nothing in another, whatever their tools are called.
#[test]
fn ap_04_a_yes_stays_in_its_project() {
    let (one, two) = (Stage::new(), Stage::new());
    let id = one.approved(&one.app(), "a");
    let file = format!(".glee/approvals/{id}.json");
    let record = std::fs::read_to_string(one.scene.root.join(&file)).unwrap();
    two.scene.write(&file, &record);
    let outcome = two.call(&two.app(), json!({}), Some(id));
    refused(&outcome, "APPROVAL_REQUIRED");
    assert_eq!(two.ran(), Vec::<String>::new());
}

/// Records are for the owner's eyes, and people can read them.
#[test]
fn ap_05_a_yes_is_good_for_one_run() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let app = stage.app();
    let id = stage.approved(&app, "a");
    let file = stage.scene.root.join(format!(".glee/approvals/{id}.json"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(stage.call(&app, json!({}), Some(id)).result.is_ok());
    for app in [&app, &stage.app()] {
        let outcome = stage.call(app, json!({}), Some(id));
        let failure = refused(&outcome, "CONFLICT");
        assert!(
            failure.message.contains("used already"),
            "{}",
            failure.message
        );
    }
    assert_eq!(stage.ran(), ["a"]);
    assert_eq!(stage.state(&app, id), State::Finished);
    // Nor can it be approved again.
    let again = app.decide(id, Decision::approve(Said::Once), "bob");
    assert_eq!(again.unwrap_err().kind.code(), "CONFLICT");
}

/// Eight processes, each of which tries to use every approval.
#[test]
fn ap_05_of_many_processes_one_runs_it() {
    let count = long(25, 500);
    let stage = Stage::new();
    stage.scene.write(
        ".glee/config.yml",
        "approvals: {pending_per_caller: 1000, pending: 1000}\n",
    );
    let app = stage.app();
    let names: Vec<String> = (0..count).map(|it| format!("n{it:03}")).collect();
    let ids: Vec<String> = names
        .iter()
        .map(|it| stage.approved_for(&app, "user", it).to_string())
        .collect();
    let line = format!(
        "for id in {}; do {} run stamp --approval $id >> out/said 2>&1; done",
        ids.join(" "),
        crate::support::GLEE
    );
    let racers: Vec<_> = (0..8)
        .map(|_| {
            std::process::Command::new("sh")
                .args(["-c", &line])
                .current_dir(&stage.scene.root)
                .spawn()
                .unwrap()
        })
        .collect();
    for mut racer in racers {
        racer.wait().unwrap();
    }
    let mut ran = stage.ran();
    ran.sort();
    let said = std::fs::read_to_string(stage.scene.root.join("out/said")).unwrap();
    assert_eq!(ran, names, "{said}");
    for id in ids {
        assert_eq!(stage.state(&app, id.parse().unwrap()), State::Finished);
    }
}

/// An approval that expired is a no, and stays one when the clock is set back.
#[test]
fn ap_08_what_expired_does_not_come_back() {
    let stage = Stage::new();
    let app = stage.app();
    let (open, id) = (stage.asked(&app, "b"), stage.approved(&app, "a"));
    stage.clock.jump(Duration::from_secs(25 * 3600));
    let outcome = stage.call(&app, json!({}), Some(id));
    let failure = refused(&outcome, "APPROVAL_DENIED");
    assert!(failure.message.contains("expired"), "{}", failure.message);
    let late = app.decide(open, Decision::approve(Said::Once), "bob");
    assert_eq!(late.unwrap_err().kind.code(), "APPROVAL_DENIED");
    stage.clock.jump_back(Duration::from_secs(3 * 24 * 3600));
    for id in [open, id] {
        refused(&stage.call(&app, json!({}), Some(id)), "APPROVAL_DENIED");
        assert_eq!(stage.state(&app, id), State::Expired);
    }
    assert_eq!(stage.ran(), Vec::<String>::new());
    // Asked again it is another question.
    assert_ne!(stage.asked(&app, "a"), id);
}

#[test]
fn ap_09_questions_that_wait_are_counted() {
    let stage = Stage::new();
    stage.scene.write(
        ".glee/config.yml",
        "approvals: {pending_per_caller: 3, pending: 5}\n",
    );
    let app = stage.app();
    let ask = |caller: &str, name: &str| {
        let outcome = stage.call_as(&app, caller, "stamp", json!({"name": name}), None);
        code(&outcome).to_owned()
    };
    for name in ["a", "b", "c", "a", "b"] {
        assert_eq!(ask("agent", name), "APPROVAL_REQUIRED", "{name}");
    }
    assert_eq!(ask("agent", "d"), "RATE_LIMITED");
    assert_eq!(ask("other", "a"), "APPROVAL_REQUIRED");
    assert_eq!(ask("other", "b"), "APPROVAL_REQUIRED");
    assert_eq!(ask("other", "c"), "RATE_LIMITED");
    assert_eq!(app.approvals().list().unwrap().len(), 5);
    assert_eq!(stage.ran(), Vec::<String>::new());
}

/// A no reaches whoever called, and is not asked for again.
#[test]
fn ap_11_a_no_is_a_no() {
    let stage = Stage::new();
    let no = Answer::Denied {
        reason: "not on a Friday".into(),
    };
    let (app, asked) = stage.answering(no);
    for _ in 0..3 {
        let outcome = stage.call(&app, json!({"name": "a"}), None);
        let failure = refused(&outcome, "APPROVAL_DENIED");
        assert!(
            failure.message.contains("not on a Friday"),
            "{}",
            failure.message
        );
    }
    assert_eq!(asked.count(), 1, "a denied call was asked about again");
    // Another call, and another caller, ask for themselves.
    refused(
        &stage.call(&app, json!({"name": "b"}), None),
        "APPROVAL_DENIED",
    );
    stage.call_as(&app, "other", "stamp", json!({"name": "a"}), None);
    assert_eq!(asked.count(), 3);
    // Until the no has expired.
    stage.clock.jump(Duration::from_secs(25 * 3600));
    refused(
        &stage.call(&app, json!({"name": "a"}), None),
        "APPROVAL_DENIED",
    );
    assert_eq!(asked.count(), 4);
    assert_eq!(stage.ran(), Vec::<String>::new());
    let audit = std::fs::read_to_string(stage.scene.root.join(".glee/audit/tools.log")).unwrap();
    assert!(audit.contains("APPROVAL_ASKED name=stamp"), "{audit}");
    assert!(audit.contains("answer=denied"), "{audit}");
}

/// Whoever gives up is not run for, and the question stays.
#[test]
fn ap_11_a_call_that_is_cancelled_does_not_run() {
    let stage = Stage::new();
    let app = stage.silent();
    let outcome = stage.cancelled(&app, json!({"name": "a"}));
    refused(&outcome, "CANCELLED");
    assert_eq!(stage.ran(), Vec::<String>::new());
    assert_eq!(app.approvals().list().unwrap()[0].state, State::Pending);
}

/// `approval.when`: only some calls ask, and what cannot be told asks.
#[test]
fn ap_12_a_condition_that_cannot_be_told_asks() {
    let stage = Stage::new();
    let when = "approval: {required: true, reason: it writes often, when: {arguments: {times: {more_than: 2}}}}";
    stage.scene.write(
        ".glee/tools/stamp/tool.yml",
        &stage::TOOL
            .replace("approval: {required: true, reason: it writes}", when)
            .replace("type: integer, ", ""),
    );
    let app = stage.app();
    for (times, asks) in [
        (json!(1), false),
        (json!(2), false),
        (json!(3), true),
        (json!("many"), true),
        (json!(null), true),
        (json!({"n": 1}), true),
    ] {
        let before = stage.ran().len();
        let outcome = stage.call(&app, json!({"name": "a", "times": times}), None);
        assert_eq!(stage.ran().len() > before, !asks, "{times}");
        if asks {
            let failure = refused(&outcome, "APPROVAL_REQUIRED");
            assert!(
                failure.message.contains("it writes often"),
                "{}",
                failure.message
            );
        }
    }
    let lint = stage.scene.glee(&["lint"]);
    assert!(lint.status.success(), "{}", crate::support::stdout(&lint));
}

#[test]
fn ap_12_a_condition_that_can_never_hold_is_an_error() {
    for when in [
        "{arguments: {tims: {equals: 1}}}",
        "{arguments: {}}",
        "{arguments: {times: {}}}",
        "{arguments: {times: {one_of: []}}}",
        "{arguments: {times: {regex: '('}}}",
        "{argument: {times: {equals: 1}}}",
    ] {
        let stage = Stage::new();
        let approval = format!("approval: {{required: true, reason: it writes, when: {when}}}");
        let manifest =
            stage::TOOL.replace("approval: {required: true, reason: it writes}", &approval);
        stage.scene.write(".glee/tools/stamp/tool.yml", &manifest);
        let lint = stage.scene.glee(&["lint"]);
        assert_eq!(lint.status.code(), Some(1), "{when}");
        let outcome = stage.call(&stage.app(), json!({"name": "a"}), None);
        assert_eq!(code(&outcome), "DISABLED", "{when}");
    }
}
