//! What cannot be recorded does not run: disks that are full, fail or hang.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use glee::observe::audit::{Audit, Fsync, Settings};
use glee_core::event::{Event, What};
use glee_core::port::Observer;
use serde_json::json;
use uuid::Uuid;

use crate::mcp::server::eventually;
use crate::support::{GLEE, Scene, stderr, stdout};

use super::client::Client;
use super::{Books, event, ran, records, scene};

/// Runs `touch` and expects that it was not run, because it could not be recorded.
#[track_caller]
fn is_refused(scene: &Scene, output: &Output, began: Instant) {
    let said = stderr(output) + &stdout(output);
    assert!(!ran(scene), "it ran: {said}");
    assert!(said.contains("AUDIT_UNAVAILABLE"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5), "{said}");
}

#[test]
fn ad_03_what_cannot_be_recorded_does_not_run() {
    let fifo = |path: &Path| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let link = |path: &Path| std::os::unix::fs::symlink("/dev/full", path).unwrap();
    let directory = |path: &Path| fs::create_dir_all(path).unwrap();
    let file = |path: &Path| fs::write(path, "").unwrap();
    type Obstacle<'a> = (&'a str, &'a dyn Fn(&Path));
    let obstacles: [Obstacle<'_>; 7] = [
        (".glee/audit/journal.jsonl", &fifo),
        (".glee/audit/journal.jsonl", &link),
        (".glee/audit/journal.jsonl", &directory),
        (".glee/audit/tools.log", &fifo),
        (".glee/audit/tools.log", &link),
        (".glee/audit/tools.log", &directory),
        (".glee/audit", &file),
    ];
    for (path, obstacle) in obstacles {
        let scene = scene();
        let path = scene.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        obstacle(&path);
        let began = Instant::now();
        is_refused(&scene, &scene.glee(&["run", "touch"]), began);
        // Without the obstacle it runs: it was nothing else.
        fs::remove_dir_all(scene.root.join(".glee/audit"))
            .or_else(|_| fs::remove_file(scene.root.join(".glee/audit")))
            .unwrap();
        let output = scene.glee(&["run", "touch"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(ran(&scene));
    }
}

fn shell(scene: &Scene, script: &str) -> Output {
    Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .env("GLEE", GLEE)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn ad_03_on_a_full_or_read_only_disk_nothing_runs() {
    if !is_root() {
        eprintln!("not tried: only root can mount a disk that is full");
        return;
    }
    // For each disk: once it has room, to see that the disk is all that is wrong.
    for (disk, fill) in [
        (
            "-o size=64k,mode=700",
            "dd if=/dev/zero of=.glee/audit/fill bs=1k 2>/dev/null",
        ),
        ("-o size=64k,mode=700", "mount -o remount,ro .glee/audit"),
        ("-o size=1m,nr_inodes=2,mode=700", "touch .glee/audit/fill"),
    ] {
        let scene = scene();
        fs::create_dir_all(scene.root.join(".glee/audit")).unwrap();
        let mount = format!("mount -t tmpfs {disk} tmpfs .glee/audit");
        let script = format!("{mount} && {fill}; exec \"$GLEE\" run touch");
        let began = Instant::now();
        is_refused(&scene, &shell(&scene, &script), began);
        let output = shell(&scene, "exec \"$GLEE\" run touch");
        assert!(ran(&scene), "{}", stderr(&output));
    }
}

#[test]
fn ad_03_a_line_that_did_not_fit_leaves_no_trace() {
    if !is_root() {
        eprintln!("not tried: only root can mount a disk that is full");
        return;
    }
    let scene = scene();
    fs::create_dir_all(scene.root.join(".glee/audit")).unwrap();
    // Events that do not end with a block, until the disk is full; then there is room again.
    let script = "set -e
mount -t tmpfs -o size=16k,mode=700 tmpfs .glee/audit
n=0; while \"$GLEE\" run nothing >/dev/null 2>&1; [ $? = 2 ] && [ $n -lt 60 ]; do n=$((n+1)); done
rm -f ran; \"$GLEE\" run touch 2>&1 | grep -c AUDIT_UNAVAILABLE; test ! -e ran
mount -o remount,size=1m .glee/audit
\"$GLEE\" run touch; test -e ran; \"$GLEE\" audit verify; ls .glee/audit";
    let output = shell(&scene, script);
    let said = stdout(&output);
    assert!(said.contains("chain whole"), "{said}{}", stderr(&output));
    assert!(!said.contains("torn"), "{said}");
}

#[test]
fn ad_03_a_lock_that_is_never_given_back_is_not_waited_for() {
    let scene = scene();
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    fs::remove_file(scene.root.join("ran")).unwrap();
    let state = fs::read_dir(scene.root.with_file_name("state").join("glee")).unwrap();
    let lock = state
        .map(|it| it.unwrap().path().join("audit.lock"))
        .next()
        .unwrap();
    let mut holder = Stopped::holding(&lock);
    let began = Instant::now();
    let output = scene.glee(&["run", "touch"]);
    is_refused(&scene, &output, began);
    assert!(
        stderr(&output).contains("held by another process"),
        "{}",
        stderr(&output)
    );
    holder.end();
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(ran(&scene));
}

/// A process that holds a lock and does nothing any more.
struct Stopped(Child);

impl Stopped {
    fn holding(lock: &Path) -> Stopped {
        let mut child = Command::new("flock")
            .arg("-x")
            .arg(lock)
            .args(["sh", "-c", "echo held; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let pid = child.id().to_string();
        Command::new("kill").args(["-STOP", &pid]).status().unwrap();
        Stopped(child)
    }

    fn end(&mut self) {
        // The lock is the shell's too, which took it over.
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        for pid in fs::read_to_string(children)
            .unwrap_or_default()
            .split_whitespace()
        {
            Command::new("kill").args(["-KILL", pid]).status().unwrap();
        }
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|it| it.is_none()) {
            self.end();
        }
    }
}

/// A command with faults in some of its system calls on one file.
fn with_faults(file: &Path, faults: &str, command: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(file);
    strace
        .arg("-e")
        .arg(format!("inject={faults}"))
        .args(command);
    strace.stdin(Stdio::null());
    strace
}

#[test]
fn ad_03_a_disk_that_fails_or_hangs_is_told_in_time() {
    let scene = scene();
    scene.write(".glee/config.yml", "audit: {fsync: always}\n");
    let journal = scene.write(".glee/audit/journal.jsonl", "");
    scene.write(".glee/audit/tools.log", "");
    let run = |faults: &str| {
        let mut command = with_faults(&journal, faults, &[GLEE, "run", "touch"]);
        command.current_dir(&scene.root);
        command.env("XDG_STATE_HOME", scene.root.with_file_name("state"));
        command
    };
    for faults in [
        "write:error=EIO",
        "write:error=ENOSPC",
        "fdatasync:error=EIO",
    ] {
        let began = Instant::now();
        is_refused(&scene, &run(faults).output().unwrap(), began);
    }
    // A disk that hangs cannot be let go of, so the process stays; but it has answered by then.
    let mut command = run("write:delay_enter=8000000");
    let began = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{said}");
    assert!(said.contains("AUDIT_UNAVAILABLE"), "{said}");
    child.wait().unwrap();
    assert!(!ran(&scene));
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success() && ran(&scene), "{output:?}");
}

/// What people decide waits for the disk, what happens in a call does not: only the first fails when
/// the disk does.
#[test]
fn ad_03_what_people_decide_is_on_disk_before_anybody_goes_on() {
    for (what, works) in [("call", true), ("decision", false)] {
        let books = Books::with(1);
        let own = std::env::current_exe().unwrap();
        let test = ["--exact", "audit::disk::records_one_event", "--ignored"];
        let command: Vec<&str> = [own.to_str().unwrap()].into_iter().chain(test).collect();
        let mut command = with_faults(&books.journal(), "fdatasync:error=EIO", &command);
        command.env("BOOKS", books.place.directory.parent().unwrap());
        let output = command.env("WHAT", what).output().unwrap();
        assert_eq!(
            output.status.success(),
            works,
            "{what}: {}",
            stdout(&output)
        );
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn records_one_event() {
    let directory = PathBuf::from(std::env::var_os("BOOKS").unwrap());
    let audit = Audit::new(Settings {
        root: directory.clone(),
        directory: directory.join("audit"),
        state: Some(directory.join("state")),
        rotate_bytes: 64 << 20,
        fsync: Fsync::Soon,
    });
    let what = match std::env::var("WHAT").unwrap().as_str() {
        "call" => What::Started,
        _ => What::Asked {
            approval: Uuid::nil(),
            reason: "because".into(),
        },
    };
    audit
        .observe(&Event {
            what,
            ..event("tool")
        })
        .unwrap();
}

/// A home that hangs is one more disk that does.
#[test]
fn ad_03_a_state_that_hangs_is_told_in_time() {
    let scene = scene();
    let state = scene.root.with_file_name("state");
    fs::create_dir_all(state.join("glee")).unwrap();
    let state = state.join("glee");
    let mut command = with_faults(&state, "%file:delay_enter=8000000", &[GLEE, "run", "touch"]);
    command.current_dir(&scene.root);
    command.env("XDG_STATE_HOME", scene.root.with_file_name("state"));
    let began = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(began.elapsed() < Duration::from_secs(7), "{said}");
    assert!(said.contains("AUDIT_UNAVAILABLE"), "{said}");
    child.wait().unwrap();
    assert!(!ran(&scene));
}

/// Who calls first has the journal opened; after that, whoever records writes, and may be the one who
/// had an eye on the clock.
#[test]
fn ad_03_a_server_goes_on_while_the_disk_hangs() {
    goes_on_while_the_disk_hangs(Client::start, 3);
}

/// Node starts its children so, and writing to these needs the runtime; the answer to a single call is written at once.
#[test]
fn ad_03_a_server_goes_on_over_sockets_while_the_disk_hangs() {
    goes_on_while_the_disk_hangs(Client::start_over_sockets, 1);
}

fn goes_on_while_the_disk_hangs(start: fn(&Scene) -> Client, calls: usize) {
    if !is_root() {
        return eprintln!("not tried: only root can hold up what glee writes");
    }
    let scene = scene();
    let journal = scene.write(".glee/audit/journal.jsonl", "");
    let mut client = start(&scene);
    let answer = client.call(1, "touch");
    assert!(!answer.contains("AUDIT_UNAVAILABLE"), "{answer}");
    fs::remove_file(scene.root.join("ran")).unwrap();
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-P"])
        .arg(&journal)
        .args(["-e", "inject=write:delay_enter=60000000", "-p"])
        .arg(client.child.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
    assert!(said.any(|it| it.unwrap().contains("attached")));
    let began = Instant::now();
    for id in 2..2 + calls {
        client.ask(id, "touch", &json!({}));
    }
    let mut answers: Vec<String> = (0..calls).map(|_| client.next()).collect();
    answers.sort();
    for (answer, id) in answers.iter().zip(2..) {
        assert!(answer.contains(&format!("\"id\":{id},")), "{answer}");
        assert!(answer.contains("AUDIT_UNAVAILABLE"), "{answer}");
        assert!(answer.contains("dev.glee/call"), "{answer}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{answers:?}");
    client.say(&json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}));
    client.answer(5);
    assert!(!ran(&scene));
    // The call is held up as long as strace is there.
    strace.kill().unwrap();
    strace.wait().unwrap();
    // Then it goes on, and answers nothing that was answered for it.
    client.ask(6, "touch", &json!({}));
    let answer = client.next();
    assert!(answer.contains("\"id\":6,"), "{answer}");
    assert!(ran(&scene));
    assert_eq!(client.end(), Vec::<String>::new());
}

#[test]
fn ad_03_a_start_that_came_too_late_has_an_end() {
    let scene = scene();
    let journal = scene.write(".glee/audit/journal.jsonl", "");
    let faults = "write:delay_enter=5000000:when=1";
    let command = with_faults(&journal, faults, &[GLEE, "mcp"]);
    let mut client = Client::start_with(&scene, command);
    let answer = client.call(1, "touch");
    assert!(answer.contains("AUDIT_UNAVAILABLE"), "{answer}");
    eventually("both are written", || {
        fs::read_to_string(&journal).unwrap().lines().count() == 2
    });
    client.end();
    assert!(!ran(&scene));
    let records = records(&scene);
    assert_eq!(records[0]["event"], "TOOL_STARTED");
    assert_eq!(records[1]["event"], "TOOL_REFUSED");
    assert_eq!(records[1]["code"], "AUDIT_UNAVAILABLE");
    assert_eq!(records[0]["id"], records[1]["id"]);
    assert!(scene.glee(&["audit", "verify"]).status.success());
}

#[test]
fn ad_03_nothing_is_written_to_a_second_place() {
    let scene = scene();
    let audit = scene.root.join(".glee/audit");
    for name in ["tools.log", "journal.jsonl"] {
        let elsewhere = scene.write("elsewhere", "");
        fs::create_dir_all(&audit).unwrap();
        fs::hard_link(&elsewhere, audit.join(name)).unwrap();
        is_refused(&scene, &scene.glee(&["run", "touch"]), Instant::now());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "", "{name}");
        fs::remove_dir_all(&audit).unwrap();
    }
    let elsewhere = scene.root.join("elsewhere.d");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &audit).unwrap();
    is_refused(&scene, &scene.glee(&["run", "touch"]), Instant::now());
    let written = fs::read_dir(&elsewhere).unwrap();
    assert!(
        written
            .flatten()
            .all(|it| it.metadata().unwrap().len() == 0)
    );
}
