//! The audit: nothing happens without a record, and no record can be changed unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glee::app::{App, Call};
use glee::observe::audit::{Audit, Fsync, Settings};
use glee::store::journal::{self, Follow, LONGEST_LINE, Place, Report};
use glee_core::event::{Event, Step, What};
use glee_core::name::is_invisible;
use glee_core::outcome::{FailureKind, Held, Outcome};
use glee_core::policy::Decision;
use glee_core::port::{Answer, Caller, Cancel, Observer, Waits};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::mcp::server::eventually;
use crate::support::{GLEE, Scene, json as output_json, stderr, stdout, wiring};

const TOUCH: &str = "name: touch\ndescription: Leaves a file\nkind: command\nversion: 1
inputs: {schema: {type: object, properties: {note: {type: string, description: n}}}}
outputs: {format: text}
exec: {command: {entrypoint: touch, args: [ran]}}
permissions: {fs: {read: ['.'], write: ['.']}}
approval: {required: false}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/touch/tool.yml", TOUCH);
    scene.write(".glee/config.yml", "# all as it is\n");
    scene
}

fn is_long() -> bool {
    std::env::var_os("GLEE_LONG").is_some()
}

/// A journal without a project around it.
struct Books {
    place: Place,
    _directory: tempfile::TempDir,
}

impl Books {
    fn new() -> Books {
        let directory = tempfile::tempdir().unwrap();
        let place = Place {
            directory: directory.path().join("audit"),
            state: directory.path().join("state"),
        };
        Books {
            place,
            _directory: directory,
        }
    }

    fn audit(&self) -> Audit {
        self.audit_with(64 << 20, Fsync::Soon)
    }

    fn audit_with(&self, rotate_bytes: u64, fsync: Fsync) -> Audit {
        Audit::new(Settings {
            root: self.place.directory.clone(),
            directory: self.place.directory.clone(),
            state: Some(self.place.state.clone()),
            rotate_bytes,
            fsync,
        })
    }

    fn record(&self, audit: &Audit, count: usize) {
        for n in 0..count {
            audit.observe(&event(&format!("tool_{n}"))).unwrap();
        }
    }

    fn with(count: usize) -> Books {
        let books = Books::new();
        books.record(&books.audit(), count);
        books
    }

    fn journal(&self) -> PathBuf {
        self.place.directory.join("journal.jsonl")
    }

    fn head(&self) -> PathBuf {
        self.place.state.join("audit.head")
    }

    fn verify(&self) -> Report {
        journal::verify(&self.place).unwrap()
    }

    #[track_caller]
    fn is_whole(&self, events: u64) -> Report {
        let report = self.verify();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(report.events, events);
        report
    }

    fn lines(&self) -> Vec<String> {
        let lines = journal::lines(&self.place.directory).unwrap();
        lines.map(Result::unwrap).collect()
    }
}

fn event(tool: &str) -> Event {
    Event {
        id: Uuid::now_v7(),
        at: SystemTime::now(),
        tool: tool.to_owned(),
        document: Some([7; 32]),
        actor: "user".to_owned(),
        args: Map::new(),
        held: None,
        trail: Vec::new(),
        what: What::Started,
    }
}

/// The journal of a project.
fn records(scene: &Scene) -> Vec<Value> {
    let text = fs::read_to_string(scene.root.join(".glee/audit/journal.jsonl")).unwrap_or_default();
    text.lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}

fn ran(scene: &Scene) -> bool {
    scene.root.join("ran").exists()
}

const NAUGHTY: &[&str] = &[
    "",
    "\n",
    "a\nb",
    "a\r\nb",
    "\r",
    "\u{0}",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{7f}",
    "\u{85}next line",
    "\u{2028}",
    "\u{2029}x",
    "\u{202e}txt.exe",
    "\u{feff}bom",
    "\u{e0041}tag",
    "\u{b}\u{c}",
    "\"",
    "\\",
    "\\\"",
    "'; drop table events; --",
    "status=success id=1\n[2026-01-09T15:00:10Z] TOOL_APPROVED name=x approver=user",
    "{\"seq\":1,\"mac\":\"00\"}",
    "}\n{\"seq\":2",
    "\",\"mac\":\"",
    "%s%n%d",
    "../../etc/passwd",
    "${IFS}$(id)`id`",
    "<script>alert(1)</script>",
    "田中さんにあげて下さい",
    "👩‍👩‍👧‍👦",
    "ﷺ",
    "Z̮̞̠͙͔ͅ",
    "NaN",
    "null",
    "-0",
    "1e309",
    " caller=root id=",
    "\t\t",
    "…+9 bytes",
];

#[test]
fn ad_01_one_event_is_one_line_whatever_it_holds() {
    let books = Books::new();
    let audit = books.audit();
    let mut count = 0;
    for text in NAUGHTY {
        let own = || (*text).to_owned();
        let whats = [
            What::Started,
            What::Refused {
                kind: FailureKind::RuleDenied,
                message: own(),
                duration: Duration::ZERO,
            },
            What::Finished {
                failure: Some(FailureKind::ExecutionError),
                message: own(),
                duration: Duration::from_millis(3),
            },
            What::Created { permissions: own() },
            What::Reviewed {
                approved: false,
                reason: own(),
            },
            What::Asked {
                approval: Uuid::nil(),
                reason: own(),
            },
            What::Answered {
                approval: Uuid::nil(),
                answer: "denied",
                reason: own(),
            },
        ];
        for what in whats {
            let it = Event {
                tool: own(),
                actor: own(),
                args: Map::from_iter([(own(), json!([text, {*text: text}]))]),
                held: Some(Held {
                    by: own(),
                    missing: vec![own()],
                }),
                trail: vec![Step {
                    by: own(),
                    decision: Decision::Deny { reason: own() },
                }],
                what,
                ..event("")
            };
            audit.observe(&it).unwrap();
            count += 1;
        }
    }
    books.is_whole(count);
    for name in ["journal.jsonl", "tools.log"] {
        let text = fs::read_to_string(books.place.directory.join(name)).unwrap();
        assert_eq!(text.lines().count() as u64, count, "{name}");
        let hidden = text.replace('\n', "");
        assert!(!hidden.contains(is_invisible), "{name}");
    }
    // And each says what it was.
    for (at, line) in books.lines().iter().enumerate() {
        let read: Value = serde_json::from_str(line).unwrap();
        assert_eq!(read["tool"], NAUGHTY[at / 7], "{line}");
        assert_eq!(read["seq"], at as u64 + 1);
    }
}

/// Every verification of a changed journal must find the change; then everything is as it was.
#[track_caller]
fn is_found(books: &Books, changed: &[u8], what: &str) {
    fs::write(books.journal(), changed).unwrap();
    let report = books.verify();
    assert!(!report.problems.is_empty(), "{what} was not found");
}

#[test]
fn ad_02_every_changed_byte_is_found() {
    let books = Books::with(200);
    let whole = fs::read(books.journal()).unwrap();
    books.is_whole(200);
    // All bytes take a minute; the short version takes all bytes of some lines, and some of all.
    let step = if is_long() { 1 } else { 97 };
    let line = whole.len() / 200;
    let some = (0..whole.len()).step_by(step);
    let first_and_last = (0..line + 1).chain(whole.len() - line - 1..whole.len());
    let places: BTreeSet<usize> = some.chain(first_and_last).collect();
    let mut bytes = whole.clone();
    for at in places {
        for other in [bytes[at] ^ 1, bytes[at] ^ 0x20, b'\n', b' '] {
            let own = bytes[at];
            if other == own {
                continue;
            }
            bytes[at] = other;
            is_found(&books, &bytes, &format!("{own} → {other} at byte {at}"));
            bytes[at] = own;
        }
    }
    fs::write(books.journal(), &whole).unwrap();
    books.is_whole(200);
}

#[test]
fn ad_02_every_line_removed_repeated_moved_or_cut_is_found() {
    let books = Books::with(200);
    let text = fs::read_to_string(books.journal()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for at in 0..lines.len() {
        let mut removed = lines.clone();
        removed.remove(at);
        is_found(&books, removed.concat().as_bytes(), "a line removed");
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        is_found(&books, repeated.concat().as_bytes(), "a line repeated");
        let mut moved = lines.clone();
        moved.swap(at, (at + 1) % lines.len());
        is_found(&books, moved.concat().as_bytes(), "two lines swapped");
        is_found(&books, lines[..at].concat().as_bytes(), "the end cut off");
        let half = lines[at].len() / 2;
        let torn = lines[..at].concat() + &lines[at][..half];
        is_found(&books, torn.as_bytes(), "the end torn off");
    }
    // The first bad place is named.
    let mut removed = lines.clone();
    removed.drain(17..20);
    fs::write(books.journal(), removed.concat()).unwrap();
    let report = books.verify();
    let first = &report.problems[0];
    assert_eq!((first.seq, first.line), (18, 18), "{first:?}");
    assert_eq!(first.what, "events 18 to 20 are missing before it");
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    fs::remove_file(books.journal()).unwrap();
    assert!(!books.verify().problems.is_empty(), "the file removed");
}

#[test]
fn ad_02_a_head_that_was_put_back_is_found() {
    let books = Books::new();
    let audit = books.audit();
    books.record(&audit, 100);
    let earlier = fs::read(books.head()).unwrap();
    books.record(&audit, 100);
    books.is_whole(200);
    let now = fs::read(books.head()).unwrap();
    fs::write(books.head(), &earlier).unwrap();
    assert!(!books.verify().problems.is_empty(), "head put back");
    // Every byte of it counts, and a head of another key does too.
    for at in 0..now.len() {
        let mut changed = now.clone();
        changed[at] ^= 1;
        fs::write(books.head(), &changed).unwrap();
        assert!(!books.verify().problems.is_empty(), "byte {at} of the head");
    }
    fs::copy(Books::with(200).head(), books.head()).unwrap();
    assert!(!books.verify().problems.is_empty(), "another head");
    fs::write(books.head(), &now).unwrap();
    books.is_whole(200);
}

#[test]
fn ad_02_a_journal_without_its_key_is_kept_and_told() {
    let books = Books::new();
    let audit = books.audit();
    books.record(&audit, 3);
    fs::remove_dir_all(&books.place.state).unwrap();
    assert!(!books.verify().problems.is_empty());
    // By a process that had it open, and by another one.
    books.record(&audit, 1);
    books.record(&books.audit(), 1);
    let report = books.verify();
    assert_eq!(report.events, 2);
    let kept = &report.problems[0].file;
    assert!(kept.starts_with("unsealed-"), "{report:?}");
    let kept = fs::read_to_string(books.place.directory.join(kept)).unwrap();
    assert_eq!(kept.lines().count(), 3);
}

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

/// A command with faults in some of its system calls on one file; `None` where that cannot be tried.
fn with_faults(file: &Path, faults: &str, command: &[&str]) -> Option<Command> {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("not tried: there is no strace here");
        return None;
    }
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(file);
    strace
        .arg("-e")
        .arg(format!("inject={faults}"))
        .args(command);
    strace.stdin(Stdio::null());
    Some(strace)
}

#[test]
fn ad_03_a_disk_that_fails_or_hangs_is_told_in_time() {
    let scene = scene();
    scene.write(".glee/config.yml", "audit: {fsync: always}\n");
    let journal = scene.write(".glee/audit/journal.jsonl", "");
    scene.write(".glee/audit/tools.log", "");
    let run = |faults: &str| {
        let mut command = with_faults(&journal, faults, &[GLEE, "run", "touch"])?;
        command.current_dir(&scene.root);
        command.env("XDG_STATE_HOME", scene.root.with_file_name("state"));
        Some(command)
    };
    for faults in [
        "write:error=EIO",
        "write:error=ENOSPC",
        "fdatasync:error=EIO",
    ] {
        let Some(mut command) = run(faults) else {
            return;
        };
        let began = Instant::now();
        is_refused(&scene, &command.output().unwrap(), began);
    }
    // A disk that hangs cannot be let go of, so the process stays; but it has answered by then.
    let Some(mut command) = run("write:delay_enter=8000000") else {
        return;
    };
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
        let test = ["--exact", "audit::records_one_event", "--ignored"];
        let command: Vec<&str> = [own.to_str().unwrap()].into_iter().chain(test).collect();
        let Some(mut command) = with_faults(&books.journal(), "fdatasync:error=EIO", &command)
        else {
            return;
        };
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

#[test]
fn ad_04_a_torn_end_is_set_aside_and_told() {
    let books = Books::with(5);
    let torn = "{\"seq\":6,\"at\":\"2026-";
    let mut file = File::options().append(true).open(books.journal()).unwrap();
    file.write_all(torn.as_bytes()).unwrap();
    drop(file);
    let report = books.is_whole(5);
    assert!(report.notes[0].contains("half a line"), "{report:?}");
    // Behind a line that is missing it is no trace of a crash.
    let whole = fs::read(books.journal()).unwrap();
    let cut = whole.len() - torn.len() - 1;
    fs::write(books.journal(), &whole[..cut]).unwrap();
    assert!(!books.verify().problems.is_empty());
    fs::write(books.journal(), &whole).unwrap();
    books.record(&books.audit(), 1);
    let report = books.is_whole(6);
    let name = report.notes[0].split(':').next().unwrap();
    assert!(name.starts_with("journal.torn-"), "{report:?}");
    let kept = fs::read_to_string(books.place.directory.join(name)).unwrap();
    assert_eq!(kept, torn);
    let looked = journal::look(&books.place).unwrap();
    assert!(looked.notes[0].contains("journal.torn-"), "{looked:?}");
}

#[test]
fn ad_04_a_line_that_was_not_sealed_yet_is_taken_in() {
    let books = Books::new();
    let audit = books.audit();
    books.record(&audit, 5);
    let head = fs::read(books.head()).unwrap();
    books.record(&audit, 1);
    // As if glee had been killed between the line and the head.
    fs::write(books.head(), &head).unwrap();
    let report = books.is_whole(6);
    assert!(report.notes[0].contains("not sealed yet"), "{report:?}");
    books.record(&books.audit(), 1);
    assert!(books.is_whole(7).notes.is_empty());
    // Also by a process that had it open all the time.
    books.record(&audit, 1);
    books.is_whole(8);
}

/// Events that come at once are sealed at once, and lost or taken in together.
#[test]
fn ad_04_lines_that_were_written_together_are_taken_in_together() {
    let books = Books::new();
    let first = event("first");
    let many: Vec<Event> = (0..200).map(|n| event(&format!("tool_{n}"))).collect();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        audit.hear(&first).await.unwrap();
        fs::copy(books.head(), books.head().with_extension("earlier")).unwrap();
        let all = many.iter().map(|it| audit.hear(it));
        for heard in futures_util::future::join_all(all).await {
            heard.unwrap();
        }
    });
    books.is_whole(201);
    let lines = books.lines();
    let joined = lines.iter().filter(|it| it.contains("\"joined\":true"));
    assert!(joined.count() > 0, "nothing was written together");
    // Killed before the seal, glee leaves what was written at once; more than that it cannot leave.
    let is_joined = |it: &&String| it.contains("\"joined\":true");
    let writes = lines[1..].iter().filter(|it| !is_joined(it)).count();
    fs::copy(books.head().with_extension("earlier"), books.head()).unwrap();
    assert_eq!(books.verify().problems.is_empty(), writes == 1);
    books.record(&books.audit(), 1);
    books.is_whole(202);
}

#[test]
fn ad_04_what_was_cut_stays_missing_and_the_rest_goes_on() {
    let books = Books::new();
    let audit = books.audit();
    books.record(&audit, 10);
    let text = fs::read_to_string(books.journal()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let cut = lines[..6].concat() + &lines[6][..20];
    fs::write(books.journal(), cut).unwrap();
    books.record(&audit, 3);
    let report = books.verify();
    assert_eq!(report.events, 8, "six before, two that follow a known one");
    assert_eq!(report.problems[0].line, 7, "{report:?}");
    assert!(
        report.problems[1].what.contains("missing before it"),
        "{report:?}"
    );
}

#[test]
fn ad_04_killed_at_any_moment_the_journal_is_whole() {
    let scene = scene();
    let rounds = if is_long() { 300 } else { 12 };
    for round in 0..rounds {
        let mut child = Command::new(GLEE)
            .args(["run", "touch"])
            .current_dir(&scene.root)
            .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Not to wait for anything: to hit it at another moment each time.
        std::thread::sleep(Duration::from_micros(700 * (round % 40)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = scene.glee(&["audit", "verify"]);
    assert!(output.status.success(), "{}", stdout(&output));
    let seqs: Vec<u64> = records(&scene)
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
}

#[test]
fn ad_05_eight_processes_write_one_chain() {
    let scene = scene();
    let calls = 200;
    let children: Vec<Child> = (0..8).map(|_| client(&scene, calls)).collect();
    let mut ids = BTreeSet::new();
    for mut child in children {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let answer: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = answer["result"]["_meta"]["dev.glee/call"].as_str() {
                ids.insert(id.to_owned());
            }
        }
        child.wait().unwrap();
    }
    assert_eq!(ids.len(), 8 * calls);
    let output = scene.glee(&["audit", "verify"]);
    assert_eq!(
        stdout(&output),
        format!("{} events, chain whole\n", 8 * calls)
    );
    let recorded: Vec<String> = records(&scene)
        .iter()
        .map(|it| it["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(recorded.len(), ids.len());
    assert_eq!(recorded.into_iter().collect::<BTreeSet<_>>(), ids);
    let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    assert_eq!(log.lines().count(), 8 * calls);
    assert!(
        log.lines()
            .all(|it| it.starts_with("[20") && it.contains(" id="))
    );
}

/// A client that makes calls which are refused, one event each.
fn client(scene: &Scene, calls: usize) -> Child {
    let mut child = Command::new(GLEE)
        .arg("mcp")
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
        send(
            json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}),
        );
        send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        for id in 1..=calls {
            let params = json!({"name": "touch", "arguments": {"note": id}});
            send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        }
    });
    child
}

#[test]
fn ad_06_a_full_journal_gets_a_number_and_the_chain_goes_on() {
    let books = Books::new();
    let audit = books.audit_with(4096, Fsync::Soon);
    books.record(&audit, 60);
    let report = books.is_whole(60);
    assert!(report.notes.is_empty());
    let full = |number: u64| {
        books
            .place
            .directory
            .join(format!("journal-{number:06}.jsonl"))
    };
    assert!(full(5).exists() && !full(99).exists());
    // So does the log for people, and no line of it is lost.
    let logs = fs::read_dir(&books.place.directory).unwrap().flatten();
    let logs: Vec<PathBuf> = logs
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "log"))
        .collect();
    let text: String = logs
        .iter()
        .map(|it| fs::read_to_string(it).unwrap())
        .collect();
    assert_eq!(text.lines().count(), 60);
    assert!(logs.len() > 1 && logs.contains(&books.place.directory.join("tools-000001.log")));
    for log in &logs {
        assert!(
            fs::metadata(log).unwrap().len() <= 4096,
            "{}",
            log.display()
        );
    }
    for file in [full(1), full(5), books.journal(), books.head()] {
        let found = fs::metadata(&file).unwrap();
        assert!(found.len() <= 4096, "{}", file.display());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(books.lines().len(), 60);
    let last = journal::last(&books.place.directory, 25).unwrap();
    assert_eq!(last, books.lines()[35..]);
    // A file that is gone, or stands in the place of another, or was made up.
    let elsewhere = books.place.directory.join("elsewhere");
    for number in 1..=5 {
        fs::rename(full(number), &elsewhere).unwrap();
        let report = books.verify();
        assert_eq!(report.problems[0].what, "the file is missing");
        fs::rename(&elsewhere, full(number)).unwrap();
    }
    fs::rename(full(2), &elsewhere).unwrap();
    fs::rename(full(3), full(2)).unwrap();
    fs::rename(&elsewhere, full(3)).unwrap();
    let report = books.verify();
    assert_eq!(report.problems[0].file, "journal-000002.jsonl");
    fs::rename(full(2), &elsewhere).unwrap();
    fs::rename(full(3), full(2)).unwrap();
    fs::rename(&elsewhere, full(3)).unwrap();
    books.is_whole(60);
    fs::write(full(99), "x\n").unwrap();
    assert!(!books.verify().problems.is_empty(), "a file was made up");
    fs::remove_file(full(99)).unwrap();
    fs::remove_file(books.journal()).unwrap();
    assert!(!books.verify().problems.is_empty(), "the last file is gone");
}

#[test]
fn ad_06_a_rotation_that_was_interrupted_is_finished() {
    let books = Books::new();
    let audit = books.audit_with(4096, Fsync::Soon);
    books.record(&audit, 5);
    // As if glee had been killed after it gave the file its number.
    let full = books.place.directory.join("journal-000001.jsonl");
    fs::rename(books.journal(), &full).unwrap();
    books.record(&books.audit_with(4096, Fsync::Soon), 2);
    books.is_whole(7);
    // A number that somebody else used is no obstacle.
    fs::write(books.place.directory.join("journal-000002.jsonl"), "x\n").unwrap();
    books.record(&audit, 20);
    let report = books.verify();
    assert_eq!(report.events, 27);
    assert!(
        report.problems[0].file.starts_with("unsealed-"),
        "{report:?}"
    );
}

#[test]
fn ad_06_a_reader_is_not_lost_and_a_journal_deleted_under_us_is_missed() {
    let books = Books::new();
    let audit = books.audit_with(4096, Fsync::Soon);
    books.record(&audit, 1);
    let mut reader = Follow::begin(&books.place.directory).unwrap();
    let mut seen = Vec::new();
    for _ in 0..20 {
        books.record(&audit, 2);
        seen.extend(reader.more().unwrap());
    }
    assert_eq!(seen, books.lines()[1..]);
    fs::remove_dir_all(&books.place.directory).unwrap();
    books.record(&audit, 2);
    let report = books.verify();
    assert_eq!(report.problems[0].seq, 1, "{report:?}");
    assert_eq!(books.lines().len(), 2);
}

#[test]
fn ad_07_no_secret_and_no_long_line() {
    let secret = "hunter2-hunter2-hunter2";
    let scene = Scene::new();
    scene.write(
        ".glee/tools/touch/tool.yml",
        &TOUCH.replace(
            "write: ['.']}",
            "write: ['.']}, secrets: {KEY: {type: string}}",
        ),
    );
    let env = BTreeMap::from([("KEY".to_owned(), secret.to_owned())]);
    let params = json!({"note": format!("it is {secret}")}).to_string();
    let output = scene.glee_with(&["run", "touch", "--params", "-"], &env, &params);
    assert!(output.status.success(), "{}", stderr(&output));
    let params = json!({"note": "x".repeat(10 << 20)}).to_string();
    let output = scene.glee_with(&["run", "touch", "--params", "-"], &env, &params);
    assert!(output.status.success(), "{}", stderr(&output));
    for name in ["journal.jsonl", "tools.log"] {
        let text = fs::read_to_string(scene.root.join(".glee/audit").join(name)).unwrap();
        assert!(!text.contains(secret), "{name}");
        assert!(text.lines().all(|it| it.len() < LONGEST_LINE), "{name}");
    }
    let records = records(&scene);
    assert_eq!(records[0]["args"]["note"], "it is [REDACTED:KEY]");
    assert_eq!(records[2]["args_bytes"], (10 << 20) + 11);
    assert!(records[2].get("args").is_none());
    assert_eq!(records[2]["args_sha256"].as_str().unwrap().len(), 64);
    assert!(scene.glee(&["audit", "verify"]).status.success());
}

/// One tool of each fate, and a call of each.
const FATES: &[(&str, FailureKind)] = &[
    ("denied_by_rule", FailureKind::RuleDenied),
    ("blocked_host", FailureKind::HostNotAllowed),
    ("nobody_there", FailureKind::ApprovalRequired),
    ("slow", FailureKind::Timeout),
    ("taken_back", FailureKind::Cancelled),
    ("fails", FailureKind::ExecutionError),
    ("wants_a_secret", FailureKind::SecretNotFound),
    ("absent", FailureKind::NotFound),
];

fn fate(name: &str) -> String {
    let head = format!(
        "name: {name}\ndescription: d\nversion: 1\ninputs: {{schema: {{type: object}}}}\noutputs: {{format: text}}\n"
    );
    let command =
        |entry: &str| format!("kind: command\nexec: {{command: {{entrypoint: {entry}}}}}\n");
    let open = "approval: {required: false}\n";
    match name {
        "blocked_host" => format!(
            "{head}kind: http\nexec: {{http: {{method: GET, url: 'https://example.com/'}}}}\npermissions: {{network: {{hosts: [example.com]}}}}\n{open}"
        ),
        "nobody_there" => format!(
            "{head}{}permissions: {{network: false}}\napproval: {{required: true, reason: because}}\n",
            command("'true'")
        ),
        "slow" | "taken_back" => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("sleep, args: ['30']")
        ),
        "fails" => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("'false'")
        ),
        "wants_a_secret" => format!(
            "{head}{}permissions: {{network: false, secrets: {{NO_SUCH_KEY: {{type: string}}}}}}\n{open}",
            command("'true'")
        ),
        _ => format!(
            "{head}{}permissions: {{network: false}}\n{open}",
            command("'true'")
        ),
    }
}

fn call(app: &App, tool: &str, cancel: Cancel) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(app.call(Call {
        tool: tool.to_owned(),
        args: Map::from_iter([("note".to_owned(), json!(1))]),
        caller: Caller {
            name: "somebody".into(),
        },
        timeout: (tool == "slow").then(|| Duration::from_millis(50)),
        cancel,
        party: Arc::new(Waits),
        approval: None,
    }))
}

#[test]
fn ad_08_every_decision_has_a_record() {
    let scene = Scene::new();
    for (name, ..) in FATES.iter().filter(|it| it.0 != "absent") {
        scene.write(&format!(".glee/tools/{name}/tool.yml"), &fate(name));
    }
    scene.write(".glee/tools/fine/tool.yml", &fate("fine"));
    scene.write(
        ".glee/config.yml",
        "rules: [{name: never, tools: [denied_by_rule], decision: deny, reason: because}]\nhttp: {allowed_hosts: [example.org]}\n",
    );
    let nobody = Answer::Nobody {
        hint: "later".into(),
    };
    let app = App::open(scene.project(), wiring(BTreeMap::new(), nobody)).unwrap();
    let mut made = vec![("fine", None, call(&app, "fine", Cancel::never()))];
    for (name, kind) in FATES {
        let cancel = match *kind {
            FailureKind::Cancelled => Cancel::when(async {}),
            _ => Cancel::never(),
        };
        made.push((name, Some(*kind), call(&app, name, cancel)));
    }
    let no = Answer::Denied {
        reason: "not today".into(),
    };
    let app = App::open(scene.project(), wiring(BTreeMap::new(), no)).unwrap();
    let denied = call(&app, "nobody_there", Cancel::never());
    made.push(("nobody_there", Some(FailureKind::ApprovalDenied), denied));
    // A machine that cannot hold the tool: nothing there can start it.
    let without = glee::app::Wiring {
        launcher: "/nonexistent".into(),
        ..wiring(BTreeMap::new(), Answer::Approved)
    };
    let app = App::open(scene.project(), without).unwrap();
    let outcome = call(&app, "fine", Cancel::never());
    made.push(("fine", Some(FailureKind::SandboxUnavailable), outcome));
    let records = records(&scene);
    assert!(made.len() > FATES.len());
    for (tool, failure, outcome) in made {
        let found = outcome.result.as_ref().err().map(|it| it.kind);
        assert_eq!(found, failure, "{tool}: {:?}", outcome.result);
        let id = outcome.id.to_string();
        let own: Vec<&Value> = records
            .iter()
            .filter(|it| it["id"] == id.as_str())
            .collect();
        let last = own
            .last()
            .unwrap_or_else(|| panic!("{tool} left no record"));
        assert_eq!(last["actor"], "somebody", "{last}");
        assert_eq!(last["tool"], tool);
        assert_eq!(last["document"].is_string(), tool != "absent", "{last}");
        assert_eq!(last["args_sha256"].as_str().unwrap().len(), 64, "{last}");
        assert!(
            last["decision"].is_string() && last["duration_ms"].is_number(),
            "{last}"
        );
        let code = failure.map(FailureKind::code);
        assert_eq!(last["code"].as_str(), code, "{last}");
        let has_run = own.iter().any(|it| it["event"] == "TOOL_STARTED");
        assert_eq!(last["event"] == "TOOL_EXECUTED", has_run, "{last}");
        match failure {
            Some(FailureKind::RuleDenied) => {
                assert_eq!(last["decision"], "denied");
                assert_eq!(last["trail"][0]["by"], "rule never");
            }
            Some(FailureKind::ApprovalDenied) => {
                assert_eq!(last["decision"], "denied");
                assert_eq!(last["trail"][1]["reason"], "not today");
            }
            Some(FailureKind::ApprovalRequired) => assert_eq!(last["decision"], "asked"),
            _ => {}
        }
    }
}

#[test]
fn calls_are_told_shown_and_exported() {
    let scene = scene();
    let first = output_json(&scene.glee(&["run", "touch", "--json"]));
    let id = first["meta"]["id"].as_str().unwrap();
    let other = output_json(&scene.glee(&["run", "touch", "--json", "-p", "note=a\nb"]));
    let other = other["meta"]["id"].as_str().unwrap();
    scene.glee(&["run", "absent"]);
    let tail = stdout(&scene.glee(&["audit", "tail", "-n", "2"]));
    assert_eq!(tail.lines().count(), 2, "{tail}");
    assert!(tail.contains("NOT_FOUND"), "{tail}");
    let lines = stdout(&scene.glee(&["audit", "tail", "--json"]));
    let events: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(events.len(), 5);
    let shown = stdout(&scene.glee(&["audit", "show", other]));
    assert!(shown.contains(r#"arguments  {"note":"a\nb"}"#), "{shown}");
    let shown = output_json(&scene.glee(&["audit", "show", &id.to_uppercase(), "--json"]));
    assert_eq!(shown.as_array().unwrap().len(), 2);
    assert_eq!(
        scene.glee(&["audit", "show", "ffffffff"]).status.code(),
        Some(2)
    );
    let export = |args: &[&str]| {
        let args: Vec<&str> = ["audit", "export"].iter().chain(args).copied().collect();
        stdout(&scene.glee(&args)).lines().count()
    };
    assert_eq!(export(&[]), 5);
    assert_eq!(export(&["--tool", "touch", "--since", "1h"]), 4);
    assert_eq!(export(&["--until", "2026-01-01"]), 0);
    assert_eq!(export(&["--format", "csv", "--tool", "absent"]), 2);
    assert_eq!(
        scene
            .glee(&["audit", "export", "--since", "soon"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn the_tail_can_be_followed() {
    let scene = scene();
    scene.glee(&["run", "absent"]);
    let mut child = Command::new(GLEE)
        .args(["audit", "tail", "--follow", "--json"])
        .current_dir(&scene.root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["seq"], 1);
    scene.glee(&["run", "touch"]);
    assert_eq!(
        (next()["seq"].clone(), next()["seq"].clone()),
        (json!(2), json!(3))
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_broken_journal_is_told() {
    let scene = scene();
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = scene.root.join(".glee/audit/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("user", "root", 1)).unwrap();
    let output = scene.glee(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(
        said.starts_with("journal.jsonl:1: event 1: it is not what was written\n"),
        "{said}"
    );
    fs::write(&path, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    let found = output_json(&scene.glee(&["audit", "verify", "--json"]));
    assert_eq!(
        (&found["whole"], &found["problems"][0]["seq"]),
        (&json!(false), &json!(2))
    );
    let doctor = output_json(&scene.glee(&["doctor", "--json"]));
    assert!(
        doctor["audit"]["problem"]
            .as_str()
            .unwrap()
            .contains("was cut"),
        "{doctor}"
    );
}

#[test]
fn why_tells_who_said_what() {
    let scene = scene();
    scene.write(
        ".glee/config.yml",
        "rules: [{name: never, tools: ['t*'], decision: deny, reason: it is Friday}]\n",
    );
    assert_eq!(scene.glee(&["why"]).status.code(), Some(2));
    let output = scene.glee(&["run", "touch", "-p", "note=x", "--json"]);
    assert!(!ran(&scene));
    let told = stdout(&scene.glee(&["why"]));
    for part in [
        "user called `touch`",
        r#"with {"note":"x"}"#,
        "rule never: deny, because it is Friday",
        "so it was denied: RULE_DENIED: it is Friday",
        "what would change what rule never says: ",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let id = output_json(&output)["meta"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = output_json(&scene.glee(&["why", &id, "--json"]));
    assert_eq!(told["steps"][0]["by"], "rule never");
    assert_eq!(told["decision"], "denied");
    scene.write(".glee/config.yml", "");
    let output = scene.glee(&["run", "touch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stdout(&scene.glee(&["why"]));
    assert!(told.contains("no rule objected"), "{told}");
    assert!(
        told.contains("so it was allowed: it ran, success after"),
        "{told}"
    );
    assert!(told.lines().count() <= 10, "{told}");
}

#[test]
fn se_02_no_grant_opens_the_key_the_head_or_the_tokens() {
    for parent in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let scene = Scene::below(&parent);
        let home = scene.root.parent().unwrap();
        let reach = "name: reach\ndescription: Reaches out\nkind: command\nversion: 1
inputs: {schema: {type: object}}
outputs: {format: text}
exec: {command: {entrypoint: bash, args: [-c, 'cat $(find HOME/state -type f); for it in audit.key audit.head audit.lock; do : > HOME/state/glee/*/$it; done; mv HOME/state HOME/moved; echo on > HOME/beside; echo end']}}
permissions: {fs: {read: [HOME], write: [HOME]}}
approval: {required: false}\n";
        let reach = reach.replace("HOME", &home.to_string_lossy());
        scene.write(".glee/tools/reach/tool.yml", &reach);
        for _ in 0..2 {
            let output = scene.glee(&["run", "reach"]);
            assert_eq!(stdout(&output).trim(), "end", "{}", stderr(&output));
        }
        assert!(home.join("beside").exists(), "the grant itself holds");
        let verified = scene.glee(&["audit", "verify"]);
        assert!(verified.status.success(), "{}", stdout(&verified));
        assert_eq!(records(&scene).len(), 4);
    }
}

#[test]
fn ad_02_a_head_with_something_behind_it_is_still_the_head() {
    let books = Books::with(3);
    let mut head = fs::read(books.head()).unwrap();
    head.extend_from_slice(b"y\n");
    fs::write(books.head(), &head).unwrap();
    books.is_whole(3);
    for _ in 0..3 {
        books.record(&books.audit(), 1);
    }
    books.is_whole(6);
}

#[test]
fn ad_02_a_full_file_has_one_name() {
    let books = Books::new();
    books.record(&books.audit_with(4096, Fsync::Soon), 30);
    books.is_whole(30);
    let full = |name: &str| books.place.directory.join(name);
    let lines = books.lines();
    for name in [
        "journal-1.jsonl",
        "journal-0000001.jsonl",
        "journal-+00001.jsonl",
    ] {
        fs::copy(full("journal-000001.jsonl"), full(name)).unwrap();
        let report = books.verify();
        assert_eq!(report.problems.len(), 1, "{name}");
        assert_eq!(report.problems[0].file, name);
        assert_eq!(books.lines(), lines, "{name} is no part of the journal");
        fs::remove_file(full(name)).unwrap();
    }
}

#[test]
fn ad_02_no_number_is_too_large_to_be_told() {
    let books = Books::with(2);
    let text = fs::read_to_string(books.journal()).unwrap();
    let forged = text.lines().next().unwrap();
    let forged = forged.replace("\"seq\":1,", "\"seq\":18446744073709551615,");
    fs::write(books.journal(), format!("{forged}\n{text}")).unwrap();
    assert!(!books.verify().problems.is_empty());
}

#[test]
fn ad_06_a_rotation_that_was_interrupted_is_no_damage() {
    for is_begun in [false, true] {
        let books = Books::with(5);
        let full = books.place.directory.join("journal-000001.jsonl");
        fs::rename(books.journal(), &full).unwrap();
        if is_begun {
            fs::write(books.journal(), "").unwrap();
        }
        books.is_whole(5);
        assert!(journal::look(&books.place).unwrap().problems.is_empty());
        // Not so with more in it than there was.
        let mut more = fs::read(&full).unwrap();
        more.extend_from_slice(b"x\n");
        fs::write(&full, more).unwrap();
        assert!(!books.verify().problems.is_empty());
    }
}

#[test]
fn ad_05_a_lock_or_a_state_that_is_replaced_is_taken_anew() {
    let books = Books::new();
    let audits = [books.audit(), books.audit()];
    for audit in &audits {
        books.record(audit, 1);
    }
    fs::remove_file(books.place.state.join("audit.lock")).unwrap();
    for audit in audits.iter().chain(&audits) {
        books.record(audit, 1);
    }
    books.is_whole(6);
    fs::remove_dir_all(&books.place.state).unwrap();
    for audit in audits.iter().chain(&audits) {
        books.record(audit, 1);
    }
    // One chain was lost and one begun, however many knew the old key.
    let report = books.verify();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.events, 4);
}

/// A home that hangs is one more disk that does.
#[test]
fn ad_03_a_state_that_hangs_is_told_in_time() {
    let scene = scene();
    let state = scene.root.with_file_name("state");
    fs::create_dir_all(state.join("glee")).unwrap();
    let state = state.join("glee");
    let Some(mut command) =
        with_faults(&state, "%file:delay_enter=8000000", &[GLEE, "run", "touch"])
    else {
        return;
    };
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

#[test]
fn ad_03_a_start_that_came_too_late_has_an_end() {
    let scene = scene();
    let journal = scene.write(".glee/audit/journal.jsonl", "");
    let faults = "write:delay_enter=5000000:when=1";
    let Some(mut command) = with_faults(&journal, faults, &[GLEE, "mcp"]) else {
        return;
    };
    let mut child = command
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "touch", "arguments": {}}}),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer = lines.find(|it| it.as_ref().unwrap().contains("\"id\":1"));
    let answer = answer.unwrap().unwrap();
    assert!(answer.contains("AUDIT_UNAVAILABLE"), "{answer}");
    eventually("both are written", || {
        fs::read_to_string(&journal).unwrap().lines().count() == 2
    });
    drop(stdin);
    child.wait().unwrap();
    assert!(!ran(&scene));
    let records = records(&scene);
    assert_eq!(records[0]["event"], "TOOL_STARTED");
    assert_eq!(records[1]["event"], "TOOL_REFUSED");
    assert_eq!(records[1]["code"], "AUDIT_UNAVAILABLE");
    assert_eq!(records[0]["id"], records[1]["id"]);
    assert!(scene.glee(&["audit", "verify"]).status.success());
}

#[test]
fn ad_07_a_mistyped_tool_tells_no_secret() {
    let secret = "hunter2-hunter2-hunter2";
    let scene = Scene::new();
    let tool = TOUCH.replace(
        "write: ['.']}",
        "write: ['.']}, secrets: {KEY: {type: string}}",
    );
    scene.write(".glee/tools/touch/tool.yml", &tool);
    let env = BTreeMap::from([("KEY".to_owned(), secret.to_owned())]);
    let params = json!({"note": secret}).to_string();
    scene.glee_with(&["run", "toch", "--params", "-"], &env, &params);
    let records = records(&scene);
    assert_eq!(records[0]["args"]["note"], "[REDACTED:KEY]", "{records:?}");
}

#[test]
fn ad_06_whatever_is_in_its_files_a_journal_can_be_read() {
    let books = Books::new();
    books.record(&books.audit_with(4096, Fsync::Soon), 30);
    let directory = &books.place.directory;
    // A gigabyte without the end of a line takes neither the memory nor the time of one.
    let current = File::options().append(true).open(books.journal()).unwrap();
    current.set_len(1 << 30).unwrap();
    assert_eq!(journal::last(directory, 2).unwrap().len(), 2);
    current.set_len(0).unwrap();
    let full = directory.join("journal-000001.jsonl");
    fs::rename(&full, directory.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &full).unwrap();
    let report = books.verify();
    assert_eq!(report.problems[0].file, "journal-000001.jsonl");
    assert_eq!(journal::last(directory, 2).unwrap().len(), 2);
    fs::remove_dir_all(directory).unwrap();
    fs::write(directory, "").unwrap();
    assert_eq!(books.verify().problems[0].file, "audit");
}

#[test]
fn ad_06_a_reader_misses_no_file_that_was_full_meanwhile() {
    let books = Books::new();
    let audit = books.audit_with(4096, Fsync::Soon);
    let mut from_nothing = Follow::begin(&books.place.directory).unwrap();
    books.record(&audit, 1);
    let mut reader = Follow::begin(&books.place.directory).unwrap();
    books.record(&audit, 60);
    assert_eq!(reader.more().unwrap(), books.lines()[1..]);
    books.record(&audit, 60);
    assert_eq!(reader.more().unwrap(), books.lines()[61..]);
    assert_eq!(from_nothing.more().unwrap(), books.lines());
    assert!(reader.more().unwrap().is_empty());
}

#[test]
fn ad_01_what_nests_too_deeply_is_recorded_by_its_size() {
    let books = Books::new();
    let mut deep = json!("x");
    for _ in 0..126 {
        deep = json!([deep]);
    }
    let mut event = event("deep");
    event.args = Map::from_iter([("deep".to_owned(), deep)]);
    books.audit().observe(&event).unwrap();
    let line: Value = serde_json::from_str(&books.lines()[0]).unwrap();
    assert!(line["args_bytes"].is_u64() && line.get("args").is_none());
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

#[test]
fn ad_07_no_name_of_a_caller_looks_like_another() {
    let books = Books::new();
    let audit = books.audit();
    for actor in ["victim", "x caller=victim id=", "x\" caller=victim"] {
        let mut event = event("t");
        event.actor = actor.to_owned();
        audit.observe(&event).unwrap();
    }
    let log = books.place.directory.join("tools.log");
    for actor in ["victim", "x caller=victim id="] {
        let own = glee::observe::audit::tail(&log, actor).unwrap();
        assert_eq!(own.lines().count(), 1, "{own}");
    }
}
