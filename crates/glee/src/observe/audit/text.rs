//! What the log for people says of an event: one line, whatever the data holds.
//!
//! `[2026-01-09T15:00:10Z] TOOL_EXECUTED name=weather params={location:"NYC"} status=success …`

use std::fmt::Write as _;

use glee_core::event::{Event, What};
use glee_core::name::is_invisible;
use glee_core::outcome::FailureKind;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::fmt::Hyphenated;

use super::time::{self, Fraction};

/// Longest text of one parameter in a line; the rest is counted.
const LONGEST_TEXT: usize = 1024;
/// How long the rendering of all parameters grows before the rest is left out.
const LONGEST_PARAMS: usize = 16 * 1024;
/// Longest line of a call, about: it has a tool, a caller and a sandbox, too.
pub(super) const LONGEST_LINE: usize = LONGEST_PARAMS + 8 * LONGEST_TEXT;

pub(super) fn line(event: &Event) -> String {
    let mut out = String::with_capacity(256);
    out.push('[');
    time::push(&mut out, event.at, Fraction::None);
    out.push_str("] ");
    let mut call = Said {
        word: super::word(&event.what),
        tool: &event.tool,
        args: Some(&event.args),
        held: event.held.as_ref().map(|it| &*it.by),
        actor: &event.actor,
        ..Said::default()
    };
    match &event.what {
        What::Started => call.push(&mut out),
        What::Refused { kind, .. } => {
            call.status = Some("refused");
            call.code = Some(kind.code());
            call.push(&mut out);
        }
        What::Finished {
            failure, duration, ..
        } => {
            call.status = Some(if failure.is_some() {
                "error"
            } else {
                "success"
            });
            call.code = failure.map(FailureKind::code);
            call.took = Some(duration.as_millis() as u64);
            call.push(&mut out);
        }
        aside => {
            call.push_name(&mut out);
            push_aside(&mut out, event, aside);
        }
    }
    out.push_str(" id=");
    let mut id = [0; Hyphenated::LENGTH];
    out.push_str(event.id.as_hyphenated().encode_lower(&mut id));
    out.push('\n');
    out
}

/// What the log says of a call's event that the journal knows; nothing of another.
pub(super) fn of_journal(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Known {
        at: String,
        event: String,
        id: String,
        actor: String,
        tool: String,
        args: Option<Map<String, Value>>,
        status: Option<String>,
        code: Option<String>,
        duration_ms: Option<f64>,
        sandbox: Option<Held>,
    }
    #[derive(Deserialize)]
    struct Held {
        by: String,
    }
    let known: Known = serde_json::from_str(line).ok()?;
    let call = Said {
        word: CALLS.iter().find(|it| **it == known.event)?,
        tool: &known.tool,
        args: known.args.as_ref(),
        status: known.status.as_deref(),
        code: known.code.as_deref(),
        // Of a refusal the log does not tell it.
        took: known
            .duration_ms
            .filter(|_| known.event == CALLS[2])
            .map(|it| it as u64),
        held: known.sandbox.as_ref().map(|it| it.by.as_str()),
        actor: &known.actor,
    };
    let second = known.at.split_once('.').map_or(&*known.at, |it| it.0);
    let mut out = format!("[{second}Z] ");
    call.push(&mut out);
    let _ = writeln!(out, " id={}", known.id);
    Some(out)
}

/// The events of calls.
const CALLS: [&str; 3] = ["TOOL_STARTED", "TOOL_REFUSED", "TOOL_EXECUTED"];

/// What a line says of a call.
#[derive(Default)]
struct Said<'a> {
    word: &'static str,
    tool: &'a str,
    /// Nothing when the journal had no room for them.
    args: Option<&'a Map<String, Value>>,
    status: Option<&'a str>,
    code: Option<&'a str>,
    took: Option<u64>,
    held: Option<&'a str>,
    actor: &'a str,
}

impl Said<'_> {
    fn push_name(&self, out: &mut String) {
        out.push_str(self.word);
        out.push_str(" name=");
        push_word_or_quoted(out, self.tool);
    }

    fn push(&self, out: &mut String) {
        self.push_name(out);
        out.push_str(" params=");
        match self.args {
            Some(args) => push_params(out, args),
            None => out.push_str("{…}"),
        }
        for (key, word) in [(" status=", self.status), (" code=", self.code)] {
            if let Some(word) = word {
                out.push_str(key);
                out.push_str(word);
            }
        }
        if let Some(took) = self.took {
            let _ = write!(out, " duration_ms={took}");
        }
        if let Some(by) = self.held {
            out.push_str(" sandbox=");
            push_word_or_quoted(out, by);
        }
        out.push_str(" caller=");
        push_word_or_quoted(out, self.actor);
    }
}

/// What a line says of an event that is no call's.
fn push_aside(out: &mut String, event: &Event, what: &What) {
    match what {
        What::Started | What::Refused { .. } | What::Finished { .. } => {}
        What::Changed { change } => {
            let _ = write!(out, " change={}", quoted(change));
            push_actor(out, "by", event);
        }
        What::Created { permissions } => {
            push_actor(out, "creator", event);
            let _ = write!(out, " permissions={}", as_it_is_or_quoted(permissions));
        }
        What::Reviewed { approved, reason } => {
            push_actor(out, "approver", event);
            if !approved {
                let _ = write!(out, " reason={}", quoted(reason));
            }
        }
        What::Asked { approval, reason } => {
            let _ = write!(out, " approval={approval} reason={}", quoted(reason));
            push_actor(out, "caller", event);
        }
        What::Answered {
            approval,
            answer,
            reason,
        } => {
            let reason = quoted(reason);
            let _ = write!(out, " approval={approval} answer={answer} reason={reason}");
            push_actor(out, "approver", event);
        }
    }
}

fn push_actor(out: &mut String, role: &str, event: &Event) {
    let _ = write!(out, " {role}=");
    push_word_or_quoted(out, &event.actor);
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

pub(super) fn word_or_quoted(text: &str) -> String {
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
    out.push('"');
    // Most texts are.
    if text.len() <= longest && is_plain(text) {
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

/// Whether a text stands in quotes as it is. All of it is looked at: many bytes at once are looked at faster than one
/// after the other until one is found.
fn is_plain(text: &str) -> bool {
    let is_plain = |it: u8| matches!(it, b' '..=b'~') & (it != b'"') & (it != b'\\');
    text.bytes().fold(true, |all, it| all & is_plain(it))
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
    use glee_core::outcome::Held;
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::{Duration, SystemTime};
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

        #[test]
        fn what_the_journal_says_of_a_call_the_log_would_have_said(
            key in any::<String>(),
            text in any::<String>(),
            at in 0..4_000_000_000_000_000u64,
            micros in any::<u32>(),
            held in any::<bool>(),
        ) {
            let duration = Duration::from_micros(micros.into());
            let kind = FailureKind::RuleDenied;
            let message = text.clone();
            for what in [
                What::Started,
                What::Refused { kind, message: message.clone(), duration },
                What::Finished { failure: None, message: String::new(), duration },
                What::Finished { failure: Some(kind), message, duration },
            ] {
                let held = held.then(|| Held { by: text.clone(), missing: Vec::new() });
                let event = Event {
                    at: SystemTime::UNIX_EPOCH + Duration::from_micros(at),
                    tool: text.clone(),
                    actor: key.clone(),
                    held,
                    ..event(json!({key.clone(): [text.clone()]}), what)
                };
                let journal = format!("{{\"seq\":1,{}}}\n", super::super::entry::entry(&event));
                prop_assert_eq!(of_journal(&journal), Some(line(&event)));
            }
        }
    }
}
