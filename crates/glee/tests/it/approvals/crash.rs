//! glee dies, at every point where it writes. What is there afterwards is one of the stated states, and
//! nothing runs twice.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use glee::store::record::State;
use serde_json::json;
use uuid::Uuid;

use super::stage::{Stage, refused};
use crate::mcp::server::eventually;
use crate::support::{GLEE, long, talk_on_a_terminal};

/// The calls by which anything gets onto the disk, or a lock is taken.
const WRITES: &[&str] = &["flock", "fsync", "rename", "unlink"];

/// Runs glee, which dies right before its n-th call of this kind. Gives whether it came so far.
fn dies_at(stage: &Stage, syscall: &str, nth: usize, args: &[&str]) -> bool {
    let status = struck(stage, syscall, "error=EIO:signal=KILL", nth, args).0;
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

/// Runs glee, whose n-th call of this kind meets a fault. Gives whether it came so far.
fn struck(
    stage: &Stage,
    syscall: &str,
    fault: &str,
    nth: usize,
    args: &[&str],
) -> (ExitStatus, bool) {
    let names = names(syscall);
    let log = stage.scene.root.with_file_name("strace.log");
    let status = Command::new("strace")
        .args(["-qq", "-e", &format!("trace={names}"), "-o"])
        .arg(&log)
        .args(["-e", &format!("inject={names}:{fault}:when={nth}")])
        .arg(GLEE)
        .args(args)
        .current_dir(&stage.scene.root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("strace is needed, in a package of that name");
    let log = fs::read_to_string(log).unwrap_or_default();
    (status, log.contains("(INJECTED)"))
}

fn names(syscall: &str) -> &str {
    match syscall {
        "rename" => "?rename,?renameat,?renameat2,?link,?linkat",
        "unlink" => "?unlink,?unlinkat",
        other => other,
    }
}

/// Calls `check` after each death of glee with these arguments, which `set` prepares.
fn sweep<'a>(
    set: impl Fn(&Stage) -> Vec<String> + 'a,
    check: impl Fn(&Stage, &[String], &str) + 'a,
) -> usize {
    let mut deaths = 0;
    for syscall in WRITES {
        for nth in 1.. {
            assert!(nth < 100, "{syscall} has no end");
            let stage = Stage::new();
            let args = set(&stage);
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            if !dies_at(&stage, syscall, nth, &words) {
                break;
            }
            deaths += 1;
            check(&stage, &args, &format!("{syscall} {nth}"));
        }
    }
    deaths
}

#[test]
fn ap_07_a_run_that_dies_is_never_run_again() {
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let deaths = sweep(
        |stage| {
            let id = stage.approved_for(&stage.app(), "user", "a");
            ["run", "stamp", "--approval", &id.to_string()]
                .map(str::to_owned)
                .to_vec()
        },
        |stage, args, at| {
            let id: Uuid = args[3].parse().unwrap();
            let app = stage.app();
            let state = stage.state(&app, id);
            seen.borrow_mut().insert(state);
            let before = stage.ran().len();
            let outcome = stage.call_as(&app, "user", "stamp", json!({}), Some(id));
            let after = stage.ran().len();
            match state {
                State::Approved => {
                    assert_eq!(before, 0, "{at}: it ran, and can be run again");
                    assert!(outcome.result.is_ok(), "{at}: {:?}", outcome.result);
                    assert_eq!(after, 1, "{at}");
                }
                State::Indeterminate => {
                    assert!(before <= 1, "{at}");
                    refused(&outcome, "CONFLICT");
                    assert_eq!(after, before, "{at}: it was run again");
                }
                State::Finished => {
                    refused(&outcome, "CONFLICT");
                    assert_eq!((before, after), (1, 1), "{at}");
                }
                other => panic!("{at}: {other:?}"),
            }
        },
    );
    assert!(deaths >= 8, "only {deaths} deaths");
    let seen = seen.into_inner();
    for state in [State::Approved, State::Indeterminate, State::Finished] {
        assert!(seen.contains(&state), "{state:?} was never seen: {seen:?}");
    }
}

#[test]
fn ap_07_a_question_that_dies_was_asked_or_was_not() {
    let deaths = sweep(
        |_| ["run", "stamp", "-p", "name=a"].map(str::to_owned).to_vec(),
        |stage, _, at| {
            let app = stage.app();
            for record in app.approvals().list().unwrap() {
                assert_eq!(record.state, State::Pending, "{at}");
            }
            assert_eq!(stage.ran(), Vec::<String>::new(), "{at}");
            // Asked again it is one question, and it can be answered.
            let id = stage.approved_for(&app, "user", "a");
            assert_eq!(app.approvals().list().unwrap().len(), 1, "{at}");
            let outcome = stage.call_as(&app, "user", "stamp", json!({}), Some(id));
            assert!(outcome.result.is_ok(), "{at}: {:?}", outcome.result);
        },
    );
    assert!(deaths >= 3, "only {deaths} deaths");
}

#[test]
fn ap_07_an_answer_that_dies_was_given_or_was_not() {
    let deaths = sweep(
        |stage| {
            let id = stage.asked(&stage.app(), "a").to_string();
            let words = ["approvals", "deny", &id, "--reason", "no"];
            words.map(str::to_owned).to_vec()
        },
        |stage, args, at| {
            let state = stage.state(&stage.app(), args[2].parse().unwrap());
            assert!(
                matches!(state, State::Pending | State::Denied),
                "{at}: {state:?}"
            );
            assert_eq!(stage.ran(), Vec::<String>::new(), "{at}");
        },
    );
    assert!(deaths >= 3, "only {deaths} deaths");
}

/// `DU-03`: an answer on a disk that fails is given, or it is not and that is told.
#[test]
fn du_03_an_answer_on_a_disk_that_fails() {
    let mut count = 0;
    for fault in ["error=EIO", "error=ENOSPC", "error=EINTR"] {
        for syscall in WRITES {
            for nth in 1..100 {
                let stage = Stage::new();
                let id = stage.asked(&stage.app(), "a");
                let words = ["approvals", "deny", &id.to_string(), "--reason", "no"];
                let (status, fired) = struck(&stage, syscall, fault, nth, &words);
                if !fired {
                    break;
                }
                count += 1;
                let at = format!("{syscall} {fault} {nth}: {status:?}");
                assert_ne!(status.code(), Some(101), "{at}");
                let state = stage.state(&stage.app(), id);
                match status.success() {
                    true => assert_eq!(state, State::Denied, "{at}"),
                    false => assert!(matches!(state, State::Pending | State::Denied), "{at}"),
                }
                assert_eq!(stage.ran(), Vec::<String>::new(), "{at}");
            }
        }
    }
    assert!(count >= 6, "only {count} faults");
}

/// The same for a yes, which is given at a terminal; and for a glee that dies while it is given.
#[test]
fn du_03_a_yes_on_a_disk_that_fails() {
    let mut count = 0;
    let faults = ["error=EIO", "error=ENOSPC", "error=EINTR", "signal=KILL"];
    for (turn, fault) in faults.into_iter().enumerate() {
        for (at, syscall) in WRITES.iter().enumerate() {
            // Each call meets one of them by default.
            if long(0, 1) == 0 && at % faults.len() != turn {
                continue;
            }
            for nth in 1..100 {
                let stage = Stage::new();
                let id = stage.asked(&stage.app(), "a");
                let log = stage.scene.root.with_file_name("strace.log");
                let (log, names) = (log.display(), names(syscall));
                let strace = format!("strace -qq -e trace={names} -o {log}");
                let inject = format!("-e inject={names}:{fault}:when={nth}");
                let command = format!("{strace} {inject} {GLEE} approvals approve {id}");
                let talk = [("[y/N] ", "y\n")];
                let (code, screen, _) = talk_on_a_terminal(&stage.scene, &command, &talk);
                let fired = fs::read_to_string(log.to_string()).unwrap_or_default();
                if !fired.contains("(INJECTED)") && code == Some(0) {
                    break;
                }
                count += 1;
                let at = format!("{syscall} {fault} {nth}: {code:?} {screen}");
                assert_ne!(code, Some(101), "{at}");
                let state = stage.state(&stage.app(), id);
                match code {
                    Some(0) => assert_eq!(state, State::Approved, "{at}"),
                    _ => assert!(matches!(state, State::Pending | State::Approved), "{at}"),
                }
                assert_eq!(stage.ran(), Vec::<String>::new(), "{at}");
            }
        }
    }
    assert!(count >= long(3, 12), "only {count} faults");
}

/// While the tool runs, the run is seen to be under way; when glee is killed, to be lost.
#[test]
fn ap_07_a_run_under_way_is_told_from_one_that_died() {
    let stage = Stage::new();
    stage.scene.write(
        "stamp.sh",
        "#!/bin/sh\necho \"$1\" >> out/ran\nexec sleep 600\n",
    );
    let app = stage.app();
    let id = stage.approved_for(&app, "user", "a");
    let mut glee = Command::new(GLEE)
        .args(["run", "stamp", "--approval", &id.to_string()])
        .current_dir(&stage.scene.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the tool runs", || stage.ran() == ["a"]);
    assert_eq!(stage.state(&app, id), State::Started);
    let outcome = stage.call_as(&app, "user", "stamp", json!({}), Some(id));
    let failure = refused(&outcome, "CONFLICT");
    assert!(failure.message.contains("right now"), "{}", failure.message);
    glee.kill().unwrap();
    glee.wait().unwrap();
    assert_eq!(stage.state(&app, id), State::Indeterminate);
    let outcome = stage.call_as(&app, "user", "stamp", json!({}), Some(id));
    let failure = refused(&outcome, "CONFLICT");
    assert!(
        failure.message.contains("never run again"),
        "{}",
        failure.message
    );
    assert_eq!(stage.ran(), ["a"]);
}
