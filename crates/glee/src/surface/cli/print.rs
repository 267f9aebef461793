//! Words for people on a terminal, bytes for programs in a pipe.

use std::io::{self, IsTerminal, Write};

use glee_core::content::Content;
use glee_core::name::is_invisible;
use glee_core::outcome::{Failure, Outcome};
use serde_json::{Value, json};

use crate::dialect::native;

/// Prints text and a line's end. Tools write what they like, so on a terminal what could move the
/// cursor or change colours is spelled out; in a pipe nothing is touched.
pub(super) fn out(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        stdout.write_all(harmless(text).as_bytes())?;
    } else {
        stdout.write_all(text.as_bytes())?;
    }
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    Ok(())
}

pub(super) fn json(value: &Value) -> anyhow::Result<()> {
    out(&serde_json::to_string_pretty(value)?)
}

/// The value of a tool, as a person wants to see it.
pub(super) fn value(value: &Value) -> anyhow::Result<()> {
    match value {
        Value::String(text) => out(text),
        other => json(other),
    }
}

pub(super) fn outcome(outcome: &Outcome, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return json(&native::render(outcome));
    }
    match &outcome.result {
        Ok(output) => {
            for warning in &output.warnings {
                note("warning", "33", warning);
            }
            if let Some(cut) = output.truncated {
                let of = cut
                    .total
                    .map_or(String::new(), |total| format!(" of {total}"));
                note(
                    "warning",
                    "33",
                    &format!("the output was cut after {}{of} bytes", cut.kept),
                );
            }
            match Content::parse(&output.value) {
                Ok(content) if output.is_content => out(&content.as_text()),
                _ => value(&output.value),
            }
        }
        Err(failure) => {
            self::failure(failure);
            // A person may want to know; a program has the id in its JSON.
            if io::stderr().is_terminal() {
                note("why", "2", &format!("glee why {}", outcome.id));
            }
            Ok(())
        }
    }
}

/// A failure outside a call: there is no outcome, only its `error`.
pub(super) fn refusal(failure: &Failure, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return json(&json!({"ok": false, "error": native::error(failure)}));
    }
    self::failure(failure);
    Ok(())
}

pub(super) fn failure(failure: &Failure) {
    for key in ["stdout", "stderr", "traceback", "body"] {
        if let Some(text) = failure
            .details
            .get(key)
            .and_then(Value::as_str)
            .filter(|it| !it.is_empty())
        {
            note(key, "2", &format!("\n{}", text.trim_end()));
        }
    }
    let violations = failure.details.get("violations").and_then(Value::as_array);
    for violation in violations.into_iter().flatten().skip(3) {
        let text = |key: &str| violation[key].as_str().unwrap_or_default();
        note(
            "also",
            "2",
            &format!("{}: {}", text("pointer"), text("message")),
        );
    }
    error(
        &format!("{} [{}]", failure.message, failure.kind.code()),
        failure.hint.as_deref(),
    );
}

pub(super) fn error(message: &str, hint: Option<&str>) {
    note("error", "1;31", message);
    if let Some(hint) = hint {
        note("hint", "36", hint);
    }
}

/// One remark on stderr, with its first word in colour where colours are wanted.
pub(super) fn note(word: &str, colour: &str, text: &str) {
    let mut stderr = io::stderr().lock();
    let text = if stderr.is_terminal() {
        harmless(text)
    } else {
        text.to_owned()
    };
    // There is nowhere left to complain to when stderr is gone.
    let _ = if wants_colour() && stderr.is_terminal() {
        writeln!(stderr, "\x1b[{colour}m{word}:\x1b[0m {text}")
    } else {
        writeln!(stderr, "{word}: {text}")
    };
}

/// `1 file`, `2 files`.
pub(super) fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
}

pub(super) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !matches!(c, '\n' | '\t' | '\u{200d}' | '\u{fe0f}') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

pub(super) fn is_broken_pipe(err: &anyhow::Error) -> bool {
    err.downcast_ref::<io::Error>()
        .is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}
