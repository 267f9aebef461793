//! Asks the person at the terminal. The default answer is no.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use glee_core::name::is_invisible;
use glee_core::permission::Network;
use glee_core::port::{Answer, Approver, Later, Question};
use serde_json::Value;

/// Most characters of one argument that are shown.
const LONGEST_SHOWN: usize = 600;

pub struct Terminal;

/// A process has one terminal. While a question stands on it, nothing else may be drawn there.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Whether a person is being asked right now.
pub fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        let text = prompt(question);
        Box::pin(async move {
            // Both ends must be a terminal: what is piped in is not a person.
            if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
                return Answer::Nobody {
                    hint: "run it from a terminal, where a person can be asked".into(),
                };
            }
            ASKING.store(true, Ordering::Relaxed);
            let answered = tokio::task::spawn_blocking(move || answer(&text)).await;
            ASKING.store(false, Ordering::Relaxed);
            match answered {
                Ok(Ok(true)) => Answer::Approved,
                Ok(Ok(false)) => Answer::Denied {
                    reason: "answered no at the terminal".into(),
                },
                Ok(Err(err)) => Answer::Nobody {
                    hint: format!("the terminal could not be read: {err}"),
                },
                Err(err) => Answer::Nobody {
                    hint: err.to_string(),
                },
            }
        })
    }
}

fn answer(text: &str) -> io::Result<bool> {
    let mut terminal: File = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(text.as_bytes())?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(matches!(
        line.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

fn prompt(question: &Question<'_>) -> String {
    let spec = question.spec;
    let mut lines = vec![
        format!(
            "{} wants to run `{}`: {}",
            visible(&question.caller.name),
            spec.name,
            visible(question.reason)
        ),
        format!("  {}", visible(&spec.description)),
    ];
    for (name, value) in question.args {
        let shown = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        lines.push(format!(
            "  {} = {}",
            visible(name),
            shortened(&visible(&shown))
        ));
    }
    lines.push(format!("It may use: {}", authority(question)));
    lines.push("Run it? [y/N] ".to_owned());
    lines.join("\n")
}

/// A long argument must not push the question, or its reason, off the screen.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((at, _)) => format!("{}… and {} bytes more", &text[..at], text.len() - at),
        None => text.to_owned(),
    }
}

fn authority(question: &Question<'_>) -> String {
    let asked = &question.spec.permissions;
    let mut parts = Vec::new();
    match &asked.network {
        Network::None => {}
        Network::Public => parts.push("the network".to_owned()),
        Network::Hosts(hosts) => {
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            parts.push(format!("the hosts {}", hosts.join(", ")));
        }
    }
    if !asked.read.is_empty() {
        parts.push(format!("reading {}", asked.read.join(", ")));
    }
    if !asked.write.is_empty() {
        parts.push(format!("writing {}", asked.write.join(", ")));
    }
    if !asked.secrets.is_empty() {
        let names: Vec<_> = asked.secrets.keys().map(String::as_str).collect();
        parts.push(format!("the secrets {}", names.join(", ")));
    }
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        visible(&parts.join("; "))
    }
}

/// What shows nothing, or moves what is shown, is spelled out.
pub fn visible(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if is_invisible(c) {
            out.extend(c.escape_unicode())
        } else {
            out.push(c)
        }
    }
    out
}
