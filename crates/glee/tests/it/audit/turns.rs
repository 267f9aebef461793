//! While events keep coming, one process keeps the journal's lock, and seals what it wrote when it gives it back.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use glee::observe::audit::{Audit, Fsync};
use glee_core::port::Observer;
use serde_json::{Value, json};

use super::client::Client;
use super::{Books, event, records, scene};
use crate::support::{GLEE, long, stderr, stdout};

/// Records one event after the other, each as soon as the one before is.
async fn keep_coming(audit: &Audit, mut goes_on: impl FnMut(u64) -> bool) -> u64 {
    let mut count = 0;
    while goes_on(count) {
        audit.hear(&event("busy")).await.unwrap();
        count += 1;
    }
    count
}

fn is_joined(line: &str) -> bool {
    line.contains("\"joined\":true")
}

#[test]
fn what_one_turn_wrote_is_sealed_when_it_is_over() {
    let books = Books::new();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(keep_coming(&audit, |count| count < 200));
    // Whoever looks waits until the lock is given back, also while the other is still there.
    assert!(books.is_whole(200).notes.is_empty());
    let joined = books.lines().iter().filter(|it| is_joined(it)).count();
    assert!(joined > 0, "nothing was sealed together");
    runtime.block_on(keep_coming(&audit, |count| count < 50));
    drop(audit);
    assert!(books.is_whole(250).notes.is_empty());
}

#[test]
fn ad_05_whoever_waits_gets_a_turn() {
    let books = Books::new();
    let (busy, others) = (books.audit(), [books.audit(), books.audit()]);
    let is_over = &AtomicBool::new(false);
    let (under_way, is_under_way) = mpsc::channel();
    let count = std::thread::scope(|scope| {
        let flood = scope.spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let goes_on = |count| {
                if count == 100 {
                    under_way.send(()).unwrap();
                }
                !is_over.load(Ordering::Relaxed)
            };
            let count = runtime.block_on(keep_coming(&busy, goes_on));
            drop(busy);
            count
        });
        is_under_way.recv().unwrap();
        let waits = others.each_ref().map(|it| {
            // Each fails if it does not get the lock in time.
            scope.spawn(|| books.record(it, 20))
        });
        let waited: Vec<_> = waits.into_iter().map(|it| it.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(waited.iter().all(Result::is_ok), "{waited:?}");
        flood.join().unwrap()
    });
    assert!(books.is_whole(count + 40).notes.is_empty());
}

#[test]
fn ad_02_what_is_cut_during_a_turn_is_missed() {
    let books = Books::new();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for round in 1..=20_usize {
        let before = books.verify().problems.len();
        runtime.block_on(async {
            keep_coming(&audit, |count| count < 20).await;
            let text = fs::read_to_string(books.journal()).unwrap();
            let cut = text.trim_end().rfind('\n').unwrap() + 1;
            let file = fs::File::options().write(true).open(books.journal());
            file.unwrap().set_len(cut as u64).unwrap();
            keep_coming(&audit, |count| count < 2).await;
        });
        let problems = books.verify().problems;
        assert!(problems.len() > before, "round {round}: {problems:?}");
    }
}

#[test]
fn du_01_killed_in_a_turn_nothing_acknowledged_is_lost() {
    for round in 0..long(6, 100) {
        let scene = scene();
        let mut client = Client::start(&scene);
        // The calls are refused, so each is one event.
        client.ask_all(400, "touch", &json!({"note": 1}));
        let mut acknowledged = BTreeSet::new();
        while acknowledged.len() < 20 + round as usize {
            let answer: Value = serde_json::from_str(&client.next()).unwrap();
            let id = answer["result"]["_meta"]["dev.glee/call"].as_str();
            acknowledged.extend(id.map(str::to_owned));
        }
        client.child.kill().unwrap();
        client.end();
        let output = scene.glee(&["audit", "verify"]);
        assert!(output.status.success(), "{}", stdout(&output));
        let output = scene.glee(&["run", "touch", "-p", "note=after"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let output = scene.glee(&["audit", "verify"]);
        assert!(output.status.success(), "{}", stdout(&output));
        let recorded: BTreeSet<String> = records(&scene)
            .iter()
            .filter_map(|it| Some(it["id"].as_str()?.to_owned()))
            .collect();
        let lost: Vec<_> = acknowledged.difference(&recorded).collect();
        assert!(lost.is_empty(), "{lost:?}");
        // The log, too, has every event now, once.
        let log = fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
        for it in records(&scene) {
            let (word, id) = (it["event"].as_str().unwrap(), it["id"].as_str().unwrap());
            let is_its = |line: &&str| line.contains(word) && line.ends_with(id);
            assert_eq!(log.lines().filter(is_its).count(), 1, "{it}");
        }
    }
}

fn log(books: &Books) -> String {
    fs::read_to_string(books.place.directory.join("tools.log")).unwrap_or_default()
}

/// Also a process that did not see it end.
#[test]
fn du_01_what_the_log_lacks_after_a_kill_is_added_once() {
    let books = Books::new();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    books.record(&audit, 1);
    let (head, short) = (fs::read(books.head()).unwrap(), log(&books));
    // The journal has them in another order, or not at all.
    let args = [
        json!({"z": 1, "a": 2.5}),
        json!({"text": "x".repeat(100_000)}),
    ];
    runtime.block_on(async {
        for at in 0..50 {
            let mut event = event("busy");
            event.args = args[at % 2].as_object().unwrap().clone().into();
            audit.hear(&event).await.unwrap();
        }
    });
    books.is_whole(51);
    let whole = log(&books);
    assert_eq!(whole.lines().count(), 51);
    // As if glee had been killed before the turn was over: with nothing in the log, with half a line, with all of it.
    let half = &whole[..short.len() + 30];
    for (left, lines) in [(short.as_str(), 52), (half, 53), (whole.as_str(), 52)] {
        fs::write(books.head(), &head).unwrap();
        fs::write(books.place.directory.join("tools.log"), left).unwrap();
        let kept = fs::read(books.journal()).unwrap();
        books.record(&books.audit(), 1);
        assert_eq!(log(&books).lines().count(), lines);
        for line in whole.lines() {
            let id = line.rsplit_once(' ').unwrap().1;
            assert_eq!(log(&books).matches(id).count(), 1, "{id}");
        }
        fs::write(books.journal(), kept).unwrap();
    }
}

/// What the log could not take when a turn was over is told to whoever records next, and not forgotten.
#[test]
fn ad_03_a_log_that_is_behind_stops_what_comes_next() {
    let books = Books::new();
    let directory = &books.place.directory;
    fs::create_dir_all(directory).unwrap();
    // A full log cannot be given its number.
    let taken = ["tools-999999999.log", "tools-1000000000.log"].map(|it| directory.join(it));
    taken.iter().for_each(|it| fs::write(it, "").unwrap());
    let audit = books.audit_with(8_000, Fsync::Soon);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut acknowledged = 0;
    let refused = runtime.block_on(async {
        loop {
            match audit.hear(&event("busy")).await {
                Ok(()) => acknowledged += 1,
                Err(why) => break why,
            }
            assert!(acknowledged < 10_000, "nothing stopped it");
        }
    });
    assert!(refused.contains("tools-1000000000.log"), "{refused}");
    assert!(audit.observe(&event("busy")).is_err());
    fs::remove_file(&taken[1]).unwrap();
    books.record(&audit, 1);
    let full = fs::read_to_string(&taken[1]).unwrap();
    let said = full.lines().count() + log(&books).lines().count();
    assert_eq!(said, acknowledged + 1);
    drop(audit);
    books.is_whole(acknowledged as u64 + 1);
}

#[test]
fn whoever_asks_for_the_log_gets_all_of_it_also_in_a_turn() {
    let books = Books::new();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let path = books.place.directory.join("tools.log");
    runtime.block_on(async {
        for round in 1..=20 {
            keep_coming(&audit, |count| count < 10).await;
            let tail = audit.tail(&path, "user").unwrap();
            assert_eq!(tail.lines().count(), 10 * round);
        }
    });
}

/// The full file has its number, and the head does not say so yet.
#[test]
fn ad_06_killed_while_a_turn_begins_a_new_file() {
    let scene = scene();
    scene.write(".glee/config.yml", "audit: {rotate_bytes: 100000}\n");
    let call = json!({"note": 1});
    let mut client = Client::start(&scene);
    client.ask(1, "touch", &call);
    client.end();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-P"]);
    strace.arg(scene.root.join(".glee/audit"));
    strace.args(["-e", "inject=fsync:signal=SIGKILL:when=1", GLEE, "mcp"]);
    let mut client = Client::start_with(&scene, strace);
    client.ask_until_it_ends(20, "touch", &call);
    client.end();
    assert!(scene.root.join(".glee/audit/journal-000001.jsonl").exists());
    let output = scene.glee(&["audit", "verify"]);
    assert!(output.status.success(), "{}", stdout(&output));
    scene.glee(&["run", "touch"]);
    let output = scene.glee(&["audit", "verify"]);
    assert!(output.status.success(), "{}", stdout(&output));
}

/// What is sealed is never looked for in the log again.
#[test]
fn ad_06_the_log_has_what_a_full_file_has_also_in_a_turn() {
    let books = Books::new();
    let directory = &books.place.directory;
    let audit = books.audit_with(20_000, Fsync::Soon);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let in_files = |name: &str| -> String {
        let files = fs::read_dir(directory).unwrap().map(|it| it.unwrap());
        let named = files.filter(|it| it.file_name().to_string_lossy().starts_with(name));
        named
            .map(|it| fs::read_to_string(it.path()).unwrap())
            .collect()
    };
    let mut full_files = 0;
    runtime.block_on(async {
        while full_files < 10 {
            audit.hear(&event("busy")).await.unwrap();
            let next = directory.join(format!("journal-{:06}.jsonl", full_files + 1));
            let Ok(full) = fs::read_to_string(next) else {
                continue;
            };
            full_files += 1;
            let log = in_files("tools");
            for line in full.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                let id = line["id"].as_str().unwrap();
                assert_eq!(log.matches(id).count(), 1, "{line}");
            }
        }
    });
}

/// What is written after it began to look is not held against what it saw.
#[test]
fn ad_02_a_journal_is_whole_while_it_is_written() {
    let books = Books::with(2_000);
    let audit = books.audit();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(keep_coming(&audit, |_| !is_over.load(Ordering::Relaxed)))
        });
        let reports: Vec<_> = (0..10).map(|_| books.verify()).collect();
        is_over.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        for report in reports {
            assert!(report.problems.is_empty(), "{:?}", report.problems);
            assert!(report.notes.is_empty(), "{:?}", report.notes);
        }
    });
}

/// What somebody writes between our lines costs no line of ours.
#[test]
fn ad_02_what_others_add_during_a_turn_takes_nothing_with_it() {
    let books = Books::new();
    let audit = books.audit();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut count = 0;
    for _ in 0..10 {
        count += runtime.block_on(async {
            let before = keep_coming(&audit, |count| count < 20).await;
            let mut file = fs::File::options()
                .append(true)
                .open(books.journal())
                .unwrap();
            file.write_all(b"x\n").unwrap();
            before + keep_coming(&audit, |count| count < 20).await
        });
        // Whoever looks waits until the turn is over.
        books.verify();
    }
    books.record(&audit, 1);
    let whole = books
        .lines()
        .iter()
        .filter(|it| it.ends_with("\"}") && it.starts_with("{\"seq\":"))
        .count();
    assert_eq!(whole as u64, count + 1);
    assert!(!books.verify().problems.is_empty());
}

/// Whoever ends in good order leaves nothing unsealed.
#[test]
fn a_server_that_ends_seals_what_it_wrote() {
    for _ in 0..long(15, 100) {
        let scene = scene();
        let mut client = Client::start(&scene);
        client.ask_all(60, "touch", &json!({"note": 1}));
        client.end();
        let output = scene.glee(&["audit", "verify"]);
        assert_eq!(stdout(&output), "60 events, chain whole\n");
    }
}
