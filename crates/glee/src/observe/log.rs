//! What a server tells on stderr, a line for each thing: for people, or as JSON for programs. It tells who called
//! what and what came of it, and never with which arguments.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use glee_core::event::{Event, What};
use glee_core::outcome::FailureKind;
use glee_core::port::Observer;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::queue::Queue;
use super::{decision, outcome, tool};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

pub struct Log {
    form: Form,
    most: Level,
    lines: Queue<String>,
}

impl Log {
    /// Tells what is at least as grave as `most`.
    pub fn new(form: Form, most: Level) -> Log {
        Log {
            form,
            most,
            // A reader of stderr who does not read must not stop the server.
            lines: Queue::start(Duration::ZERO, move |lines: Vec<String>, lost| {
                let mut text = lines.concat();
                if lost > 0 {
                    let lost = json!({"lines": lost});
                    text += &line(form, SystemTime::now(), Level::Warn, "lost", &lost);
                }
                let _ = std::io::stderr().write_all(text.as_bytes());
            }),
        }
    }

    /// One line: what happened, and what is known of it.
    pub fn say(&self, level: Level, what: &str, known: &Value) {
        self.say_at(SystemTime::now(), level, what, known);
    }

    fn say_at(&self, at: SystemTime, level: Level, what: &str, known: &Value) {
        if level <= self.most {
            self.lines.put(line(self.form, at, level, what, known));
        }
    }

    pub fn flush(&self) {
        self.lines.flush(Duration::from_secs(1));
    }
}

fn line(form: Form, at: SystemTime, level: Level, what: &str, known: &Value) -> String {
    let at = Timestamp::try_from(at).unwrap_or_default();
    let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let known = known.as_object().cloned().unwrap_or_default();
    match form {
        Form::Json => {
            let mut out = Map::new();
            out.insert("time".into(), at.into());
            out.insert("level".into(), level.name().into());
            out.insert("event".into(), what.into());
            out.extend(known);
            format!("{}\n", Value::Object(out))
        }
        Form::Text => {
            let known: String = known
                .iter()
                .map(|(key, value)| match value.as_str() {
                    Some(text) if is_plain(text) => format!(" {key}={text}"),
                    // As JSON it stays on its line, whatever it holds.
                    _ => format!(" {key}={}", ascii(&value.to_string())),
                })
                .collect();
            format!("{at} {:5} {what}{known}\n", level.name().to_uppercase())
        }
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic() && it != b'"')
}

/// Without what could move a cursor, or looks like something else.
fn ascii(json: &str) -> String {
    json.chars()
        .flat_map(|c| -> Box<dyn Iterator<Item = char>> {
            match c.is_ascii() && !c.is_ascii_control() {
                true => Box::new(std::iter::once(c)),
                false => Box::new(c.escape_unicode()),
            }
        })
        .collect()
}

impl Observer for Log {
    fn observe(&self, event: &Event) -> Result<(), String> {
        let (what, failure, duration) = match &event.what {
            What::Started => ("started", None, None),
            What::Refused { kind, duration, .. } => ("refused", Some(*kind), Some(duration)),
            What::Finished {
                failure, duration, ..
            } => ("called", *failure, Some(duration)),
            What::Changed { .. } => ("changed", None, None),
            What::Created { .. } => ("created", None, None),
            What::Reviewed { .. } => ("reviewed", None, None),
            What::Asked { .. } => ("asked", None, None),
            What::Answered { .. } => ("answered", None, None),
        };
        let level = match (what, failure) {
            ("started", _) => Level::Debug,
            (_, Some(FailureKind::Internal | FailureKind::AuditUnavailable)) => Level::Error,
            (_, Some(_)) => Level::Warn,
            (_, None) => Level::Info,
        };
        if level > self.most {
            return Ok(());
        }
        let mut known =
            json!({"tool": tool(event), "actor": event.actor, "id": event.id.to_string()});
        if let Some(duration) = duration {
            known["decision"] = decision(event).into();
            known["outcome"] = outcome(failure).into();
            known["ms"] = (duration.as_micros() as f64 / 1000.0).into();
        }
        self.say_at(event.at, level, what, &known);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_line() {
        let known = json!({"tool": "a\nb\u{202e}", "actor": "me", "ms": 1.5});
        let at = SystemTime::UNIX_EPOCH;
        assert_eq!(
            line(Form::Text, at, Level::Info, "called", &known),
            "1970-01-01T00:00:00.000Z INFO  called tool=\"a\\nb\\u{202e}\" actor=me ms=1.5\n"
        );
        let text = line(Form::Json, at, Level::Warn, "called", &known);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&read["level"], &read["tool"]),
            (&json!("warn"), &known["tool"])
        );
        assert_eq!(text.matches('\n').count(), 1);
    }
}
