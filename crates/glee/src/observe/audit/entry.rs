//! What the journal says of an event: the members of one JSON object, in a line of bounded length.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use data_encoding::HEXLOWER;
use glee_core::event::{Canonical, Event, What};
use glee_core::json;
use glee_core::name::is_invisible;
use glee_core::outcome::FailureKind;
use glee_core::policy::Decision;
use uuid::fmt::Hyphenated;

use super::text::{push_quoted, push_units, quoted_within};
use super::time::{self, Fraction};
use crate::store::journal::{AROUND_ENTRY, LONGEST_LINE};

const LONGEST: usize = LONGEST_LINE - AROUND_ENTRY;

const DEEPEST: usize = 64;

/// Of a line that would be too long first the arguments go, then the ends of its texts.
pub(super) fn entry(event: &Event) -> String {
    let args = event.args.canonical();
    for (shown, longest) in [
        (Shown::Wholly, 4096),
        (Shown::BySize, 4096),
        (Shown::BySize, 256),
    ] {
        if shown == Shown::Wholly && (args.text.len() > LONGEST || is_too_deep(event)) {
            continue;
        }
        let entry = render(event, args, shown, longest);
        if entry.len() <= LONGEST {
            return entry;
        }
    }
    // Who had a say in it is left to be counted.
    let mut short = event.clone();
    short.trail.truncate(8);
    render(&short, args, Shown::BySize, 64)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Wholly,
    BySize,
}

/// Whoever reads the line must be able to: parsers give up at some depth.
fn is_too_deep(event: &Event) -> bool {
    event.args.values().any(|it| json::depth(it) > DEEPEST)
}

fn render(event: &Event, args: &Canonical, shown: Shown, longest: usize) -> String {
    let mut out = Members {
        text: String::with_capacity(640),
        longest,
    };
    out.text.push_str("\"at\":\"");
    time::push(&mut out.text, event.at, Fraction::Micros);
    out.text.push('"');
    out.text("event", super::word(&event.what));
    out.text(
        "id",
        event
            .id
            .as_hyphenated()
            .encode_lower(&mut [0; Hyphenated::LENGTH]),
    );
    out.text("actor", &event.actor);
    out.text("tool", &event.tool);
    if let Some(document) = &event.document {
        out.hex("document", document);
    }
    out.hex("args_sha256", &args.sha256);
    match shown {
        Shown::Wholly => out.raw("args", &on_one_line(&args.text)),
        Shown::BySize => out.raw("args_bytes", &args.text.len().to_string()),
    }
    if let Some(decision) = decision(&event.what) {
        out.text("decision", decision);
    }
    if !event.trail.is_empty() {
        out.raw("trail", &trail(event, longest));
    }
    if let Some(held) = &event.held {
        out.text.push_str(",\"sandbox\":{\"by\":");
        push_quoted(&mut out.text, &held.by, longest);
        out.text.push_str(",\"missing\":[");
        for (at, missing) in held.missing.iter().take(32).enumerate() {
            out.text.push_str(if at > 0 { "," } else { "" });
            push_quoted(&mut out.text, missing, longest);
        }
        out.text.push_str("]}");
    }
    out.what(&event.what);
    out.text
}

/// What was decided about a call, in one word; events about something else have none.
fn decision(what: &What) -> Option<&'static str> {
    match what {
        What::Started | What::Finished { .. } => Some("allowed"),
        What::Refused { kind, .. } => Some(match kind {
            FailureKind::RuleDenied | FailureKind::ApprovalDenied => "denied",
            FailureKind::ApprovalRequired => "asked",
            _ => "refused",
        }),
        What::Changed { .. }
        | What::Created { .. }
        | What::Reviewed { .. }
        | What::Asked { .. }
        | What::Answered { .. } => None,
    }
}

fn trail(event: &Event, longest: usize) -> String {
    let steps: Vec<String> = event
        .trail
        .iter()
        .map(|step| {
            let by = quoted_within(&step.by, longest);
            let (decision, reason) = match &step.decision {
                Decision::Allow => ("allow", ""),
                Decision::Ask { reason } => ("ask", reason.as_str()),
                Decision::Deny { reason } => ("deny", reason.as_str()),
            };
            let reason = quoted_within(reason, longest);
            format!("{{\"by\":{by},\"decision\":\"{decision}\",\"reason\":{reason}}}")
        })
        .collect();
    format!("[{}]", steps.join(","))
}

struct Members {
    text: String,
    longest: usize,
}

impl Members {
    fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push_str(value);
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        push_quoted(&mut self.text, value, self.longest);
    }

    fn hex(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.text.push('"');
        HEXLOWER.encode_append(bytes, &mut self.text);
        self.text.push('"');
    }

    fn key(&mut self, key: &str) {
        self.text.push_str(",\"");
        self.text.push_str(key);
        self.text.push_str("\":");
    }

    fn duration(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.key("duration_ms");
        let _ = write!(self.text, "{}", micros / 1000);
        let below = micros % 1000;
        if below > 0 {
            let _ = write!(self.text, ".{below:03}");
            let length = self.text.trim_end_matches('0').len();
            self.text.truncate(length);
        }
    }

    fn what(&mut self, what: &What) {
        match what {
            What::Started => {}
            What::Refused {
                kind,
                message,
                duration,
            } => {
                self.text("status", "refused");
                self.text("code", kind.code());
                self.text("message", message);
                self.duration(*duration);
            }
            What::Finished {
                failure: None,
                duration,
                ..
            } => {
                self.text("status", "success");
                self.duration(*duration);
            }
            What::Finished {
                failure: Some(kind),
                message,
                duration,
            } => {
                self.text("status", "error");
                self.text("code", kind.code());
                self.text("message", message);
                self.duration(*duration);
            }
            What::Changed { change } => self.text("change", change),
            What::Created { permissions } => self.text("permissions", permissions),
            What::Reviewed { reason, .. } => self.text("reason", reason),
            What::Asked { approval, reason } => {
                self.text("approval", &approval.to_string());
                self.text("reason", reason);
            }
            What::Answered {
                approval,
                answer,
                reason,
            } => {
                self.text("approval", &approval.to_string());
                self.text("answer", answer);
                self.text("reason", reason);
            }
        }
    }
}

/// JSON in which no reader finds the end of a line. What is invisible can stand only inside of strings.
fn on_one_line(json: &str) -> Cow<'_, str> {
    let is_plain = |it: u8| matches!(it, b' '..=b'~');
    let is_all_plain = json.bytes().fold(true, |all, it| all & is_plain(it));
    if is_all_plain || !json.contains(is_invisible) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match is_invisible(c) {
            true => push_units(&mut out, c),
            false => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glee_core::event::Step;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::time::SystemTime;
    use uuid::Uuid;

    fn event(args: Value) -> Event {
        Event {
            id: Uuid::nil(),
            at: SystemTime::UNIX_EPOCH,
            tool: "weather".into(),
            document: Some([1; 32]),
            actor: "user".into(),
            args: args.as_object().unwrap().clone().into(),
            held: None,
            trail: Vec::new(),
            what: What::Started,
        }
    }

    fn read(entry: &str) -> Value {
        serde_json::from_str(&format!("{{{entry}}}")).unwrap()
    }

    #[test]
    fn ad_07_a_line_is_bounded() {
        let huge = "\u{1}".repeat(100_000);
        let mut event = event(json!({"a": huge, "b": [1]}));
        let read_back = read(&entry(&event));
        assert_eq!(read_back["args_bytes"], 600_016);
        assert!(read_back.get("args").is_none());
        event.tool.clone_from(&huge);
        event.actor.clone_from(&huge);
        event.trail = vec![
            Step {
                by: huge.clone(),
                decision: Decision::Deny {
                    reason: huge.clone(),
                },
            };
            100
        ];
        event.what = What::Refused {
            kind: FailureKind::RuleDenied,
            message: huge,
            duration: Duration::ZERO,
        };
        let entry = entry(&event);
        assert!(entry.len() <= LONGEST, "{}", entry.len());
        assert_eq!(read(&entry)["code"], "RULE_DENIED");
    }

    #[test]
    fn how_long_it_took_is_told_in_milliseconds() {
        for (micros, told) in [
            (0, 0.0),
            (7, 0.007),
            (120, 0.12),
            (4_000, 4.0),
            (12_500, 12.5),
        ] {
            let what = What::Finished {
                failure: None,
                message: String::new(),
                duration: Duration::from_micros(micros),
            };
            let event = Event {
                what,
                ..event(json!({}))
            };
            assert_eq!(read(&entry(&event))["duration_ms"].as_f64(), Some(told));
        }
    }

    proptest! {
        #[test]
        fn ad_01_an_entry_says_what_the_event_says(key in any::<String>(), text in any::<String>()) {
            let mut event = event(json!({key.clone(): text}));
            event.tool.clone_from(&text);
            event.actor.clone_from(&key);
            let entry = entry(&event);
            prop_assert!(!entry.contains(is_invisible), "{entry:?}");
            let back = read(&entry);
            prop_assert_eq!(&back["args"][&key], &Value::from(text.clone()));
            prop_assert_eq!(&back["tool"], &Value::from(text));
            prop_assert_eq!(&back["actor"], &Value::from(key));
        }
    }
}
