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

/// Whether a person is there. Both ends must be a terminal: what is piped in is not a person.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The terminal, for one conversation.
pub struct Tty(BufReader<File>);

impl Tty {
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        self.0.get_mut().write_all(text.as_bytes())
    }

    /// What the person typed; `None` when they closed it.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line)?;
        Ok((length > 0).then(|| line.trim().to_owned()))
    }
}

/// Talks to the person, on a thread of its own: people take their time.
pub async fn converse<T: Send + 'static>(
    talk: impl FnOnce(&mut Tty) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    ASKING.store(true, Ordering::Relaxed);
    let talked = tokio::task::spawn_blocking(move || {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        talk(&mut Tty(BufReader::new(terminal)))
    });
    let talked = talked.await;
    ASKING.store(false, Ordering::Relaxed);
    talked.unwrap_or_else(|err| Err(io::Error::other(err)))
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        let text = prompt(question);
        Box::pin(async move {
            if !is_there() {
                return Answer::Nobody {
                    hint: "run it from a terminal, where a person can be asked".into(),
                };
            }
            match converse(move |tty| answer(tty, &text)).await {
                Ok(true) => Answer::Approved,
                Ok(false) => Answer::Denied {
                    reason: "answered no at the terminal".into(),
                },
                Err(err) => Answer::Nobody {
                    hint: format!("the terminal could not be read: {err}"),
                },
            }
        })
    }
}

fn answer(tty: &mut Tty, text: &str) -> io::Result<bool> {
    tty.say(text)?;
    let line = tty.line()?.unwrap_or_default();
    Ok(matches!(line.to_ascii_lowercase().as_str(), "y" | "yes"))
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
