//! A full journal gets a number, and the chain goes on.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use glee::observe::audit::Fsync;
use glee::store::journal::{self, Follow};

use super::Books;

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
