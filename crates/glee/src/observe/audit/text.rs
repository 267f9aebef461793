//! The log for people: one line per event, whatever the data holds.
//!
//! `[2026-01-09T15:00:10Z] TOOL_EXECUTED name=weather params={location:"NYC"} status=success …`

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use glee_core::event::{Event, What};
use glee_core::name::is_invisible;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use serde_json::{Map, Value};

use crate::store::durable;
use crate::store::kept::{Kept, Now, Writing};

/// Longest text of one parameter in a line; the rest is counted.
const LONGEST_TEXT: usize = 1024;
/// How long the rendering of all parameters grows before the rest is left out.
const LONGEST_PARAMS: usize = 16 * 1024;

/// What is read of the log's end, in bytes.
const TAIL: u64 = 32 * 1024;

/// What the last lines of a log say about one caller; nothing when there is none.
pub fn tail(path: &Path, caller: &str) -> io::Result<String> {
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)
    {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(err) => return Err(err),
    };
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let mut bytes = vec![0; (length - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let whole = match text.split_once('\n') {
        // The first line may be the end of one.
        Some((_, whole)) if start > 0 => whole,
        _ => &text,
    };
    // The caller stands before the id at a line's end, where nothing that a caller says can stand: also a
    // caller's name may hold what looks like another's.
    let own = format!(" caller={} id=", word_or_quoted(caller));
    Ok(whole
        .split_inclusive('\n')
        .filter(|line| {
            line.trim_end().rsplit_once('=').is_some_and(|(before, _)| {
                own.strip_suffix('=').is_some_and(|it| before.ends_with(it))
            })
        })
        .collect())
}

/// The log itself. A line that went out in one write to a file opened for appending is whole.
pub(super) struct Log {
    kept: Kept,
    /// The file, as long as nobody else can write.
    now: Option<Now>,
    /// Its length after the last line of ours.
    end: u64,
    /// A log that would grow beyond this gets a number, and the next one is begun.
    rotate: u64,
}

impl Log {
    pub(super) fn new(path: PathBuf, rotate: u64) -> Log {
        Log {
            kept: Kept::new(path, Writing::AtTheEnd),
            now: None,
            end: 0,
            rotate,
        }
    }

    /// Gives what is needed to take the line back. Nobody else writes meanwhile.
    pub(super) fn append(&mut self, line: &str) -> io::Result<Written> {
        let mut now = match self.now.take() {
            Some(now) => now,
            None => self.kept.now()?,
        };
        if now.length > 0 && now.length + line.len() as u64 > self.rotate {
            now.file.sync_data()?;
            self.set_aside()?;
            now = self.kept.now()?;
        }
        let written = Written(now.file.clone(), now.length);
        // A line that was torn off by a crash or a full disk must not take this one with it.
        let mut last = [b'\n'];
        if now.length != self.end && now.length > 0 {
            now.file.read_exact_at(&mut last, now.length - 1)?;
        }
        let line = match last {
            [b'\n'] => Cow::Borrowed(line),
            _ => Cow::Owned(format!("\n{line}")),
        };
        if let Err(err) = (&*now.file).write_all(line.as_bytes()) {
            written.take_back();
            let path = self.kept.path().display();
            return Err(io::Error::other(format!("{path}: {err}")));
        }
        self.end = now.length + line.len() as u64;
        self.now = Some(Now {
            length: self.end,
            ..now
        });
        Ok(written)
    }

    /// Others may write from here on.
    pub(super) fn give_back(&mut self) {
        self.now = None;
    }

    pub(super) fn file(&mut self) -> io::Result<Arc<File>> {
        Ok(self.kept.now()?.file)
    }

    fn set_aside(&self) -> io::Result<()> {
        let path = self.kept.path();
        let directory = path.parent().unwrap_or(Path::new("/"));
        let number = |entry: io::Result<DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let digits = name.strip_prefix("tools-")?.strip_suffix(".log")?;
            // Others may have put names of their own there.
            digits.parse::<u32>().ok().filter(|_| digits.len() <= 9)
        };
        let last = fs::read_dir(directory)?.filter_map(number).max();
        let next = last.unwrap_or(0) + 1;
        let full = directory.join(format!("tools-{next:06}.log"));
        renameat_with(CWD, path, CWD, &full, RenameFlags::NOREPLACE)
            .map_err(|err| io::Error::other(format!("{}: {err}", full.display())))?;
        File::open(directory)?.sync_all()
    }
}

/// A line that was written, and where the log ended before it.
pub(super) struct Written(Arc<File>, u64);

impl Written {
    pub(super) fn take_back(self) {
        let _ = durable::cut(&self.0, self.1);
    }
}

pub(super) fn line(event: &Event) -> String {
    let mut out = String::with_capacity(256);
    out.push('[');
    push_time(&mut out, event.at);
    let _ = write!(out, "] {} name=", super::word(&event.what));
    push_word_or_quoted(&mut out, &event.tool);
    match &event.what {
        What::Started => push_call(&mut out, event, format_args!("")),
        What::Refused { kind, .. } => {
            let status = format_args!(" status=refused code={}", kind.code());
            push_call(&mut out, event, status);
        }
        What::Finished {
            failure, duration, ..
        } => {
            let took = duration.as_millis();
            match failure {
                None => push_call(
                    &mut out,
                    event,
                    format_args!(" status=success duration_ms={took}"),
                ),
                Some(kind) => push_call(
                    &mut out,
                    event,
                    format_args!(" status=error code={} duration_ms={took}", kind.code()),
                ),
            }
        }
        What::Changed { change } => {
            let _ = write!(out, " change={}", quoted(change));
            push_actor(&mut out, "by", event);
        }
        What::Created { permissions } => {
            push_actor(&mut out, "creator", event);
            let _ = write!(out, " permissions={}", as_it_is_or_quoted(permissions));
        }
        What::Reviewed { approved, reason } => {
            push_actor(&mut out, "approver", event);
            if !approved {
                let _ = write!(out, " reason={}", quoted(reason));
            }
        }
        What::Asked { approval, reason } => {
            let _ = write!(out, " approval={approval} reason={}", quoted(reason));
            push_actor(&mut out, "caller", event);
        }
        What::Answered {
            approval,
            answer,
            reason,
        } => {
            let reason = quoted(reason);
            let _ = write!(out, " approval={approval} answer={answer} reason={reason}");
            push_actor(&mut out, "approver", event);
        }
    }
    let _ = writeln!(out, " id={}", event.id);
    out
}

fn push_call(out: &mut String, event: &Event, status: fmt::Arguments) {
    out.push_str(" params=");
    push_params(out, &event.args);
    let _ = out.write_fmt(status);
    if let Some(held) = &event.held {
        out.push_str(" sandbox=");
        push_word_or_quoted(out, &held.by);
    }
    push_actor(out, "caller", event);
}

fn push_actor(out: &mut String, role: &str, event: &Event) {
    let _ = write!(out, " {role}=");
    push_word_or_quoted(out, &event.actor);
}

fn push_time(out: &mut String, at: SystemTime) {
    match jiff::Timestamp::try_from(at) {
        Ok(at) => {
            let _ = write!(out, "{at:.0}");
        }
        Err(_) => out.push('?'),
    }
}

/// What is left out is left out between two values, so that every quote and bracket is closed and
/// what follows the parameters cannot be mistaken for a part of them.
fn push_params(out: &mut String, args: &Map<String, Value>) {
    let start = out.len();
    render_map(args, out, start);
}

fn render(value: &Value, out: &mut String, start: usize) {
    match value {
        Value::String(text) => push_quoted(out, text, LONGEST_TEXT),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if !goes_on(at, items.len(), out, start) {
                    break;
                }
                render(item, out, start);
            }
            out.push(']');
        }
        Value::Object(map) => render_map(map, out, start),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn render_map(map: &Map<String, Value>, out: &mut String, start: usize) {
    out.push('{');
    for (at, (key, value)) in map.iter().enumerate() {
        if !goes_on(at, map.len(), out, start) {
            break;
        }
        push_word_or_quoted(out, key);
        out.push(':');
        render(value, out, start);
    }
    out.push('}');
}

/// Whether there is room for the next of `count` values; otherwise says how many are left out.
fn goes_on(at: usize, count: usize, out: &mut String, start: usize) -> bool {
    if at > 0 {
        out.push(',');
    }
    let room = out.len() - start < LONGEST_PARAMS;
    if !room {
        let _ = write!(out, "…+{}", count - at);
    }
    room
}

fn word_or_quoted(text: &str) -> String {
    let mut out = String::new();
    push_word_or_quoted(&mut out, text);
    out
}

fn push_word_or_quoted(out: &mut String, text: &str) {
    let word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    if !text.is_empty() && text.len() <= 128 && text.bytes().all(word) {
        out.push_str(text);
    } else {
        push_quoted(out, text, LONGEST_TEXT);
    }
}

/// `{network:true,fs:{read:[],write:[]}}` stays as it is, as long as nothing in it could end it early or
/// be taken for another field of the line.
fn as_it_is_or_quoted(permissions: &str) -> String {
    let is_harmless = |c: char| !c.is_whitespace() && !is_invisible(c) && c != '=';
    let is_whole = permissions.starts_with('{') && permissions.ends_with('}');
    match is_whole && permissions.len() <= LONGEST_TEXT && permissions.chars().all(is_harmless) {
        true => permissions.to_owned(),
        false => quoted(permissions),
    }
}

fn quoted(text: &str) -> String {
    quoted_within(text, LONGEST_TEXT)
}

pub(super) fn quoted_within(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest) + 2);
    push_quoted(&mut out, text, longest);
    out
}

/// Adds a JSON string that also escapes what shows nothing or reorders the line.
pub(super) fn push_quoted(out: &mut String, text: &str, longest: usize) {
    let is_plain = |it: u8| matches!(it, b' '..=b'~') && it != b'"' && it != b'\\';
    out.push('"');
    // Most texts are.
    if text.len() <= longest && text.bytes().all(is_plain) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for (at, c) in text.char_indices() {
        if at >= longest {
            let _ = write!(out, "…+{} bytes", text.len() - at);
            break;
        }
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => push_units(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A character as JSON escapes it.
pub(super) fn push_units(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glee_core::outcome::FailureKind;
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::Duration;
    use uuid::Uuid;

    fn event(args: Value, what: What) -> Event {
        Event {
            id: Uuid::nil(),
            at: SystemTime::UNIX_EPOCH,
            tool: "weather".into(),
            document: None,
            actor: "user".into(),
            args: args.as_object().unwrap().clone().into(),
            held: None,
            trail: Vec::new(),
            what,
        }
    }

    #[test]
    fn the_form_of_a_line() {
        let done = What::Finished {
            failure: None,
            message: String::new(),
            duration: Duration::from_millis(12),
        };
        assert_eq!(
            line(&event(json!({"location": "NYC", "n": [1, null]}), done)),
            "[1970-01-01T00:00:00Z] TOOL_EXECUTED name=weather params={location:\"NYC\",n:[1,null]} status=success duration_ms=12 caller=user id=00000000-0000-0000-0000-000000000000\n"
        );
        let refused = What::Refused {
            kind: FailureKind::RuleDenied,
            message: "no".into(),
            duration: Duration::ZERO,
        };
        assert!(
            line(&event(json!({}), refused))
                .contains("TOOL_REFUSED name=weather params={} status=refused code=RULE_DENIED")
        );
    }

    #[test]
    fn a_torn_line_takes_no_other_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools.log");
        std::fs::write(&path, "[torn").unwrap();
        let mut log = Log::new(path.clone(), u64::MAX);
        log.append("one\n").unwrap();
        log.append("two\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "[torn\none\ntwo\n");
    }

    #[test]
    fn a_log_that_was_moved_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools.log");
        let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
        let mut log = Log::new(path.clone(), u64::MAX);
        log.append("one\n").unwrap();
        log.give_back();
        let moved = path.with_extension("old");
        std::fs::rename(&path, &moved).unwrap();
        log.append("two\n").unwrap();
        log.give_back();
        assert_eq!((lines(&moved), lines(&path)), (1, 1));
        std::fs::write(&path, "[torn").unwrap();
        log.append("three\n").unwrap();
        log.give_back();
        assert_eq!(lines(&path), 2);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(log.append("four\n").is_err());
    }

    #[test]
    fn long_values_are_cut() {
        let text = line(&event(
            json!({"a": "ü".repeat(100_000), "b": vec!["y".repeat(900); 100]}),
            What::Started,
        ));
        assert!(
            text.len() < LONGEST_PARAMS + 2 * LONGEST_TEXT,
            "{}",
            text.len()
        );
        assert!(text.contains(",…+"), "{text}");
        assert!(text.ends_with("]} caller=user id=00000000-0000-0000-0000-000000000000\n"));
    }

    proptest! {
        #[test]
        fn one_event_is_one_line(key in "\\PC*|[\\x00-\\x1f\u{85}\u{2028}\u{202e}]*", text in any::<String>()) {
            let rendered = line(&event(json!({key: text}), What::Started));
            let body = rendered.strip_suffix('\n').unwrap();
            prop_assert!(!body.contains(is_invisible), "{body:?}");
        }
    }
}
