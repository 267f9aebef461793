//! One event is one line, no secret is in it, and no line can be changed unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use glee::observe::audit::Fsync;
use glee::store::journal::LONGEST_LINE;
use glee_core::event::{Event, Step, What};
use glee_core::name::is_invisible;
use glee_core::outcome::{FailureKind, Held};
use glee_core::policy::Decision;
use glee_core::port::Observer;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::support::{Scene, long, stderr};

use super::{Books, TOUCH, event, records};

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
                args: Map::from_iter([(own(), json!([text, {*text: text}]))]).into(),
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
    let step = long(97, 1);
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
fn ad_01_what_nests_too_deeply_is_recorded_by_its_size() {
    let books = Books::new();
    let mut deep = json!("x");
    for _ in 0..126 {
        deep = json!([deep]);
    }
    let mut event = event("deep");
    event.args = Map::from_iter([("deep".to_owned(), deep)]).into();
    books.audit().observe(&event).unwrap();
    let line: Value = serde_json::from_str(&books.lines()[0]).unwrap();
    assert!(line["args_bytes"].is_u64() && line.get("args").is_none());
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
        let own = audit.tail(&log, actor).unwrap();
        assert_eq!(own.lines().count(), 1, "{own}");
    }
}
