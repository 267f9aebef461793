//! The audit log: one line per event, whatever the data holds.
//!
//! `[2026-01-09T15:00:10Z] TOOL_EXECUTED name=weather params={location:"NYC"} status=success …`

use std::fmt::Write as _;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use glee_core::event::{Event, What};
use glee_core::name::is_invisible;
use glee_core::port::Observer;
use rustix::fs::OFlags;
use serde_json::{Map, Value};

/// Longest text of one parameter in a line; the rest is counted.
const LONGEST_TEXT: usize = 1024;
/// How long the rendering of all parameters grows before the rest is left out.
const LONGEST_PARAMS: usize = 16 * 1024;

/// What is read of the log's end, in bytes.
const TAIL: u64 = 32 * 1024;

pub struct Audit {
    path: PathBuf,
    log: Mutex<Option<Log>>,
}

/// The file that the path named when it was last looked at.
struct Log {
    file: File,
    found: Metadata,
    /// Its length after the last line of ours.
    end: u64,
}

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
    // The caller stands at a line's end, where nothing that a caller says can stand.
    let own = format!(" caller={} id=", word_or_quoted(caller));
    Ok(whole
        .split_inclusive('\n')
        .filter(|line| {
            line.rfind(" caller=")
                .is_some_and(|at| line[at..].starts_with(&own))
        })
        .collect())
}

impl Audit {
    pub fn new(path: PathBuf) -> Audit {
        Audit {
            path,
            log: Mutex::new(None),
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut kept = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // To open it for every line would cost more than a small call does. It may have been moved
        // or removed meanwhile; then the next line goes to a new one.
        let mut log = match (kept.take(), fs::symlink_metadata(&self.path)) {
            (Some(log), Ok(found)) if is_same(&found, &log.found) => Log { found, ..log },
            _ => self.open()?,
        };
        log.append(line)?;
        *kept = Some(log);
        Ok(())
    }

    fn open(&self) -> io::Result<Log> {
        if let Some(directory) = self.path.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
        }
        // A link in its place would send the record elsewhere, and a FIFO would wait for a reader.
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&self.path)?;
        let found = file.metadata()?;
        match found.is_file() {
            true => Ok(Log {
                file,
                found,
                end: 0,
            }),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Log {
    /// A line that went out in one write to a file opened for appending is whole, also when other
    /// processes write theirs.
    fn append(&mut self, line: &str) -> io::Result<()> {
        let length = self.found.len();
        // A line that was torn off by a crash or a full disk must not take this one with it.
        let mut last = [b'\n'];
        if length != self.end && length > 0 {
            self.file.read_exact_at(&mut last, length - 1)?;
        }
        match last {
            [b'\n'] => self.file.write_all(line.as_bytes())?,
            _ => self.file.write_all(format!("\n{line}").as_bytes())?,
        }
        self.end = length + line.len() as u64;
        Ok(())
    }
}

impl Observer for Audit {
    fn observe(&self, event: &Event) -> Result<(), String> {
        self.append(&line(event))
            .map_err(|err| format!("{}: {err}", self.path.display()))
    }
}

fn line(event: &Event) -> String {
    let name = word_or_quoted(&event.tool);
    let actor = word_or_quoted(&event.actor);
    let said = match &event.what {
        What::Started => format!("TOOL_STARTED name={name} {}", call(event, "")),
        What::Refused { kind, .. } => {
            let status = format!(" status=refused code={}", kind.code());
            format!("TOOL_REFUSED name={name} {}", call(event, &status))
        }
        What::Finished { failure, duration } => {
            let status = match failure {
                None => " status=success".to_owned(),
                Some(kind) => format!(" status=error code={}", kind.code()),
            };
            let status = format!("{status} duration_ms={}", duration.as_millis());
            format!("TOOL_EXECUTED name={name} {}", call(event, &status))
        }
        What::Created { permissions } => {
            format!(
                "TOOL_CREATED name={name} creator={actor} permissions={}",
                as_it_is_or_quoted(permissions)
            )
        }
        What::Reviewed { approved: true, .. } => {
            format!("TOOL_APPROVED name={name} approver={actor}")
        }
        What::Reviewed {
            approved: false,
            reason,
        } => format!(
            "TOOL_DENIED name={name} approver={actor} reason={}",
            quoted(reason)
        ),
        What::Asked { approval, reason } => format!(
            "APPROVAL_ASKED name={name} approval={approval} reason={} caller={actor}",
            quoted(reason)
        ),
        What::Answered {
            approval,
            answer,
            reason,
        } => format!(
            "APPROVAL_ANSWERED name={name} approval={approval} answer={answer} reason={} approver={actor}",
            quoted(reason)
        ),
    };
    format!("[{}] {said} id={}\n", time(event.at), event.id)
}

fn call(event: &Event, status: &str) -> String {
    let sandbox = match &event.held {
        Some(held) => format!(" sandbox={}", word_or_quoted(&held.by)),
        None => String::new(),
    };
    format!(
        "params={}{status}{sandbox} caller={}",
        params(&event.args),
        word_or_quoted(&event.actor),
    )
}

fn time(at: SystemTime) -> String {
    match jiff::Timestamp::try_from(at) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// What is left out is left out between two values, so that every quote and bracket is closed and
/// what follows the parameters cannot be mistaken for a part of them.
fn params(args: &Map<String, Value>) -> String {
    let mut out = String::new();
    render_map(args, &mut out);
    out
}

fn render(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if !goes_on(at, items.len(), out) {
                    break;
                }
                render(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => render_map(map, out),
        other => out.push_str(&other.to_string()),
    }
}

fn render_map(map: &Map<String, Value>, out: &mut String) {
    out.push('{');
    for (at, (key, value)) in map.iter().enumerate() {
        if !goes_on(at, map.len(), out) {
            break;
        }
        out.push_str(&word_or_quoted(key));
        out.push(':');
        render(value, out);
    }
    out.push('}');
}

/// Whether there is room for the next of `count` values; otherwise says how many are left out.
fn goes_on(at: usize, count: usize, out: &mut String) -> bool {
    if at > 0 {
        out.push(',');
    }
    let room = out.len() < LONGEST_PARAMS;
    if !room {
        let _ = write!(out, "…+{}", count - at);
    }
    room
}

fn word_or_quoted(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !text.is_empty() && text.len() <= 128 && text.chars().all(word) {
        text.to_owned()
    } else {
        quoted(text)
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

/// A JSON string that also escapes what shows nothing or reorders the line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for (at, c) in text.char_indices() {
        if at >= LONGEST_TEXT {
            let _ = write!(out, "…+{} bytes", text.len() - at);
            break;
        }
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
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
            args: args.as_object().unwrap().clone(),
            held: None,
            trail: Vec::new(),
            what,
        }
    }

    #[test]
    fn the_form_of_a_line() {
        let done = What::Finished {
            failure: None,
            duration: Duration::from_millis(12),
        };
        assert_eq!(
            line(&event(json!({"location": "NYC", "n": [1, null]}), done)),
            "[1970-01-01T00:00:00Z] TOOL_EXECUTED name=weather params={location:\"NYC\",n:[1,null]} status=success duration_ms=12 caller=user id=00000000-0000-0000-0000-000000000000\n"
        );
        let refused = What::Refused {
            kind: FailureKind::RuleDenied,
            message: "no".into(),
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
        fs::write(&path, "[torn").unwrap();
        let audit = Audit::new(path.clone());
        audit.observe(&event(json!({}), What::Started)).unwrap();
        audit.observe(&event(json!({}), What::Started)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "[torn"));
    }

    #[test]
    fn a_log_that_was_moved_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit/tools.log");
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
        let audit = Audit::new(path.clone());
        let started = event(json!({}), What::Started);
        audit.observe(&started).unwrap();
        let moved = path.with_extension("old");
        fs::rename(&path, &moved).unwrap();
        audit.observe(&started).unwrap();
        assert_eq!((lines(&moved), lines(&path)), (1, 1));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        audit.observe(&started).unwrap();
        assert_eq!(lines(&path), 1);
        fs::write(&path, "[torn").unwrap();
        audit.observe(&started).unwrap();
        assert_eq!(lines(&path), 2);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(audit.observe(&started).is_err());
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

    #[test]
    fn a_fifo_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools.log");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let started = event(json!({}), What::Started);
        assert!(Audit::new(path).observe(&started).is_err());
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
