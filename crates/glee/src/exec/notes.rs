//! What a tool tells while it runs, on a channel of its own: lines of JSON, bounded and without secrets.
//!
//! `{"progress": 5, "total": 10, "message": "…"}` says how far it is, `{"log": "…", "level": "info"}`
//! what happens meanwhile.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use glee_core::admit::Admitted;
use glee_core::port::{Level, Note, Party};
use glee_core::redact::Redactor;
use glee_core::secret::SecretValues;
use serde_json::{Map, Value};
use tokio::net::unix::pipe;

use super::streams::from_child;

/// The variable that names the channel's descriptor.
pub(super) const VARIABLE: &str = "GLEE_NOTES_FD";

const LONGEST_LINE: usize = 64 << 10;
/// A tool may tell so much at once, and as much again every second.
const PER_SECOND: f64 = 100.0;
/// Most notes of one call.
const MOST: u32 = 10_000;
/// What is still read of a channel when the tool is over: as much as a pipe can hold. Somebody may
/// hold it open, and write on.
const LAST_READS: usize = (1 << 20) / CHUNK;
const CHUNK: usize = 8 << 10;

/// Our end of a tool's channel.
pub(super) struct Notes(pipe::Receiver);

impl Notes {
    pub(super) fn open() -> io::Result<(OwnedFd, Notes)> {
        let (ours, theirs) = from_child()?;
        Ok((theirs, Notes(ours)))
    }

    /// Hears what is told until the work is done. Who holds the channel open longer is not waited for.
    pub(super) async fn during<T>(self, work: impl Future<Output = T>, to: Audience<'_>) -> T {
        let mut ear = Ear::new(to);
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                ready = self.0.readable() => {
                    if ready.is_err() || self.take(&mut ear) == Took::End {
                        break work.await;
                    }
                }
            }
        };
        self.take_rest(&mut ear);
        ear.finish();
        done
    }

    /// What is there, as far as the runtime has noticed.
    fn take(&self, ear: &mut Ear<'_>) -> Took {
        let mut chunk = [0; CHUNK];
        match self.0.try_read(&mut chunk) {
            Ok(0) => Took::End,
            Ok(length) => {
                ear.hear(&chunk[..length]);
                Took::Some
            }
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => Took::Some,
            Err(_) => Took::End,
        }
    }

    /// What is there now, asked of the kernel: of what was told last the runtime may not know yet.
    fn take_rest(&self, ear: &mut Ear<'_>) {
        let mut chunk = [0; CHUNK];
        for _ in 0..LAST_READS {
            match rustix::io::read(&self.0, &mut chunk) {
                Ok(length @ 1..) => ear.hear(&chunk[..length]),
                _ => break,
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Took {
    /// All that there was, and more may come.
    Some,
    /// Nothing can come any more.
    End,
}

/// Who hears a tool, and what nobody may hear.
pub(super) struct Audience<'a> {
    tool: &'a str,
    party: &'a dyn Party,
    secrets: &'a SecretValues,
}

impl<'a> From<&'a Admitted> for Audience<'a> {
    fn from(call: &'a Admitted) -> Audience<'a> {
        Audience {
            tool: &call.spec().name,
            party: &**call.party(),
            secrets: call.secrets(),
        }
    }
}

/// Turns bytes into notes, and passes on as many as a caller can bear.
struct Ear<'a> {
    to: Audience<'a>,
    /// Made for the first note; most tools tell nothing.
    redactor: Option<Redactor>,
    line: Vec<u8>,
    /// The line is longer than a line may be; its rest is thrown away.
    overlong: bool,
    rate: Rate,
    heard: u32,
    dropped: u64,
    unreadable: u64,
}

impl<'a> Ear<'a> {
    fn new(to: Audience<'a>) -> Ear<'a> {
        Ear {
            to,
            redactor: None,
            line: Vec::new(),
            overlong: false,
            rate: Rate::new(Instant::now()),
            heard: 0,
            dropped: 0,
            unreadable: 0,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&it| it == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            match self.line.len() + text.len() > LONGEST_LINE {
                true => {
                    self.overlong = true;
                    self.line.clear();
                }
                false if self.overlong => {}
                false => self.line.extend_from_slice(text),
            }
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.overlong) {
            self.unreadable += 1;
            return;
        }
        if line.trim_ascii().is_empty() {
            return;
        }
        // Before anything is made of it: reading costs more than writing.
        if self.heard >= MOST || !self.rate.allows(Instant::now()) {
            self.dropped += 1;
            return;
        }
        self.heard += 1;
        let redactor = self
            .redactor
            .get_or_insert_with(|| Redactor::new(self.to.secrets));
        match read(&line, redactor) {
            Some(note) => self.to.party.hear(note),
            None => self.unreadable += 1,
        }
    }

    fn finish(mut self) {
        self.end_line();
        if self.dropped + self.unreadable == 0 {
            return;
        }
        let text = format!(
            "of what `{}` told, {} notes were too many and {} could not be read",
            self.to.tool, self.dropped, self.unreadable
        );
        self.to.party.hear(Note::Log {
            level: Level::Warning,
            text,
        });
    }
}

/// Secrets go first: what was one of them, be it a number, is no note any more.
fn read(line: &[u8], redactor: &Redactor) -> Option<Note> {
    let value = redactor.value(serde_json::from_slice(line).ok()?);
    let map = value.as_object()?;
    match (map.get("progress"), map.get("log")) {
        (Some(done), None) => Some(Note::Progress {
            done: done.as_f64()?,
            total: optional(map, "total", Value::as_f64)?,
            message: optional(map, "message", Value::as_str)?.map(str::to_owned),
        }),
        (None, Some(Value::String(text))) => Some(Note::Log {
            level: optional(map, "level", level)?.unwrap_or(Level::Info),
            text: text.clone(),
        }),
        _ => None,
    }
}

/// `None` when it is there and wrong.
fn optional<'a, T>(
    map: &'a Map<String, Value>,
    key: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Option<Option<T>> {
    match map.get(key) {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn level(value: &Value) -> Option<Level> {
    Some(match value.as_str()? {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "notice" => Level::Notice,
        "warning" => Level::Warning,
        "error" => Level::Error,
        "critical" => Level::Critical,
        "alert" => Level::Alert,
        "emergency" => Level::Emergency,
        _ => return None,
    })
}

/// A bucket of notes that fills up with time.
struct Rate {
    left: f64,
    since: Instant,
}

impl Rate {
    fn new(now: Instant) -> Rate {
        Rate {
            left: PER_SECOND,
            since: now,
        }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let gained = now.duration_since(self.since).as_secs_f64() * PER_SECOND;
        self.left = (self.left + gained).min(PER_SECOND);
        self.since = now;
        let allowed = self.left >= 1.0;
        if allowed {
            self.left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::io::Write;
    use std::sync::Mutex;

    use glee_core::elicit::Asked;
    use glee_core::port::{Approver, Later, Supply};
    use glee_core::secret::Secret;

    use super::*;

    #[derive(Default)]
    struct Listener(Mutex<Vec<Note>>);

    impl Party for Listener {
        fn hear(&self, note: Note) {
            self.0.lock().unwrap().push(note);
        }

        fn supply<'a>(&'a self, _: &'a [Asked]) -> Later<'a, Supply> {
            Box::pin(async { Supply::Nobody })
        }

        fn approver(&self) -> Option<&dyn Approver> {
            None
        }
    }

    /// What is heard of these bytes, when somebody holds the channel open behind them.
    fn heard(bytes: &[u8]) -> Vec<Note> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = Listener::default();
        let to = Audience {
            tool: "tool",
            party: &listener,
            secrets: &SecretValues::default(),
        };
        runtime.block_on(async {
            let (theirs, notes) = Notes::open().unwrap();
            let mut theirs = std::fs::File::from(theirs);
            let bytes = bytes.to_vec();
            let writing = tokio::task::spawn_blocking(move || {
                theirs.write_all(&bytes).unwrap();
                theirs
            });
            let held_open = notes.during(async { writing.await.unwrap() }, to).await;
            drop(held_open);
        });
        listener.0.into_inner().unwrap()
    }

    fn log(text: &str) -> Note {
        Note::Log {
            level: Level::Info,
            text: text.to_owned(),
        }
    }

    fn summary(notes: &[Note]) -> &str {
        match notes.last() {
            Some(Note::Log { level, text }) if *level == Level::Warning => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nobody_waits_for_who_holds_the_channel_open() {
        assert_eq!(heard(b""), []);
        assert_eq!(heard(b"{\"log\": \"a\"}\n\n"), [log("a")]);
        // Also the last line counts when it has no end.
        assert_eq!(
            heard(b"{\"log\": \"a\"}\n{\"log\": \"b\"}"),
            [log("a"), log("b")]
        );
    }

    #[test]
    fn a_flood_is_cut_and_told() {
        let began = Instant::now();
        let notes = heard(&b"{\"log\": \"x\"}\n".repeat(5000));
        let most = PER_SECOND * (1.0 + began.elapsed().as_secs_f64());
        // And one more that tells of the others.
        let told = notes.len() as f64 - 1.0;
        assert!((100.0..=most).contains(&told), "{told} of {most}");
        assert!(summary(&notes).contains("notes were too many and 0 "));
    }

    #[test]
    fn a_call_tells_no_more_than_so_much() {
        let (listener, secrets) = (Listener::default(), SecretValues::default());
        let mut ear = Ear::new(Audience {
            tool: "tool",
            party: &listener,
            secrets: &secrets,
        });
        ear.heard = MOST - 1;
        ear.hear(&b"{\"log\": \"x\"}\n".repeat(3));
        ear.finish();
        let notes = listener.0.into_inner().unwrap();
        assert_eq!(notes[..1], [log("x")]);
        assert!(summary(&notes[1..]).contains(" 2 notes were too many"));
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let mut bytes = b"nonsense\n\xff\n{}\n".to_vec();
        bytes.extend(b"{\"log\": \"");
        bytes.extend(b"x".repeat(LONGEST_LINE));
        bytes.extend(b"\"}\n{\"log\": \"after\"}\n");
        let notes = heard(&bytes);
        assert_eq!(notes[0], log("after"));
        assert!(summary(&notes).contains("0 notes were too many and 4 could not be read"));
    }

    fn note(line: &str) -> Option<Note> {
        let secrets = SecretValues::from([
            ("KEY".to_owned(), Secret::new("supersecret")),
            ("PIN".to_owned(), Secret::new("12345678")),
        ]);
        read(line.as_bytes(), &Redactor::new(&secrets))
    }

    #[test]
    fn notes_are_read() {
        let progress = |done, total, message: Option<&str>| {
            Some(Note::Progress {
                done,
                total,
                message: message.map(str::to_owned),
            })
        };
        assert_eq!(note(r#"{"progress": 5}"#), progress(5.0, None, None));
        assert_eq!(
            note(r#"{"progress": 0.5, "total": 2, "message": "half", "more": 1}"#),
            progress(0.5, Some(2.0), Some("half"))
        );
        assert_eq!(note(r#"{"log": "x"}"#), Some(log("x")));
        let loud = Note::Log {
            level: Level::Emergency,
            text: "x".to_owned(),
        };
        assert_eq!(note(r#"{"log": "x", "level": "emergency"}"#), Some(loud));
        for bad in [
            "x",
            "5",
            "{}",
            r#"{"progress": "5"}"#,
            r#"{"progress": 5, "total": "x"}"#,
            r#"{"progress": 5, "message": 1}"#,
            r#"{"log": 5}"#,
            r#"{"log": "x", "level": "loud"}"#,
            r#"{"log": "x", "progress": 1}"#,
        ] {
            assert_eq!(note(bad), None, "{bad}");
        }
    }

    #[test]
    fn secrets_do_not_get_out() {
        let told = [
            note(r#"{"log": "it is supersecret"}"#),
            note(r#"{"log": "it is super\u0073ecret"}"#),
            note(r#"{"progress": 1, "message": "supersecret"}"#),
            note(r#"{"progress": 12345678}"#),
            note(r#"{"progress": 1, "total": 12345678}"#),
        ];
        let shown = format!("{told:?}");
        assert!(shown.contains("[REDACTED:KEY]"), "{shown}");
        for secret in ["supersecret", "12345678"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    /// However the pipe cuts what a tool tells, it is read by lines, and redacted by lines.
    #[test]
    fn se_02_a_secret_in_two_chunks_is_found() {
        let secrets = SecretValues::from([("KEY".to_owned(), Secret::new("supersecret"))]);
        let line = b"{\"log\": \"it is supersecret, c3VwZXJzZWNyZXQ=\"}\n";
        for at in 0..line.len() {
            let listener = Listener::default();
            let mut ear = Ear::new(Audience {
                tool: "tool",
                party: &listener,
                secrets: &secrets,
            });
            ear.hear(&line[..at]);
            ear.hear(&line[at..]);
            ear.finish();
            let told = listener.0.into_inner().unwrap();
            assert_eq!(told, [log("it is [REDACTED:KEY], [REDACTED:KEY]=")], "{at}");
        }
    }

    #[test]
    fn a_rate_is_kept() {
        let began = Instant::now();
        let mut rate = Rate::new(began);
        let mut allowed = |at: u64| {
            let now = began + Duration::from_millis(at);
            (0..1000).filter(|_| rate.allows(now)).count()
        };
        assert_eq!(allowed(0), 100);
        assert_eq!(allowed(500), 50);
        assert_eq!(allowed(60_000), 100);
    }
}
