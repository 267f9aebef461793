//! Ends that came at any moment, and many processes at once.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use glee::store::journal;
use glee_core::event::Event;
use glee_core::port::Observer;
use serde_json::{Value, json};

use crate::support::{GLEE, long, stderr, stdout};

use super::client::Client;
use super::{Books, event, records, scene};

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
    let rounds = long(12, 300);
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
    // The calls are refused, so each is one event.
    let client = || {
        let mut client = Client::start(&scene);
        client.ask_all(calls, "touch", &json!({"note": 1}));
        client.end()
    };
    let said = std::thread::scope(|scope| {
        let clients = [(); 8].map(|()| scope.spawn(client));
        clients.map(|it| it.join().unwrap())
    });
    let mut ids = BTreeSet::new();
    for line in said.iter().flatten() {
        let answer: Value = serde_json::from_str(line).unwrap();
        if let Some(id) = answer["result"]["_meta"]["dev.glee/call"].as_str() {
            ids.insert(id.to_owned());
        }
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
