//! Asks the person at the terminal. The default answer is no.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use glee_core::json;
use glee_core::name::spelled_out;
use glee_core::permission::Network;
use glee_core::port::{Answer, Approver, Lasting, Later, Question};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value};

use crate::store::record::Authority;

/// Who answers here, for those who read of it later.
pub const NAME: &str = "terminal";

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
        // What was typed before the question is no answer to it.
        tcflush(&terminal, QueueSelector::IFlush)?;
        talk(&mut Tty(BufReader::new(terminal)))
    });
    let talked = talked.await;
    ASKING.store(false, Ordering::Relaxed);
    talked.unwrap_or_else(|err| Err(io::Error::other(err)))
}

impl Approver for Terminal {
    fn name(&self) -> &str {
        NAME
    }

    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Later<'a, Answer> {
        let asked = Shown {
            caller: question.caller.name.clone(),
            tool: question.spec.name.clone(),
            description: question.spec.description.clone(),
            reason: question.reason.to_owned(),
            args: question.args.clone(),
            authority: Authority::of(&question.spec.permissions),
        };
        Box::pin(async move {
            if !is_there() {
                return Answer::Nobody {
                    hint: "run it from a terminal, where a person can be asked".into(),
                };
            }
            match converse(move |tty| answer(tty, &asked)).await {
                Ok(answer) => answer,
                Err(err) => Answer::Nobody {
                    hint: format!("the terminal could not be read: {err}"),
                },
            }
        })
    }
}

/// A question, as the person sees it.
pub struct Shown {
    pub caller: String,
    pub tool: String,
    pub description: String,
    pub reason: String,
    pub args: Map<String, Value>,
    pub authority: Authority,
}

impl Shown {
    /// Everything there is to know, to the last character. Who wants what, and why, comes last: long
    /// arguments must not push that off the screen.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.description.is_empty() {
            lines.push(format!("  {}", spelled_out(&self.description)));
        }
        for (name, value) in &self.args {
            lines.push(format!("  {} = {}", spelled_out(name), shown(value)));
        }
        lines.push(format!("It may use: {}", in_words(&self.authority)));
        lines.push(format!(
            "{} wants to run `{}`: {}",
            spelled_out(&self.caller),
            self.tool,
            spelled_out(&self.reason)
        ));
        lines.join("\n")
    }
}

/// A text stands for itself, unless it could be taken for something else.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if json::parse(text).is_err() => spelled_out(text),
        other => spelled_out(&other.to_string()),
    }
}

fn answer(tty: &mut Tty, asked: &Shown) -> io::Result<Answer> {
    tty.say(&format!("{}\n{CHOICE}", asked.text()))?;
    let line = tty.line()?.unwrap_or_default();
    Ok(match line.to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Approved,
        "s" | "session" => Answer::Lasting(Lasting::Session),
        "a" | "always" => Answer::Lasting(Lasting::Always),
        "e" | "edit" => match edit(tty, &asked.args)? {
            Some(args) => Answer::Amended(args),
            None => denied("the arguments were to be edited, and were not"),
        },
        _ => denied(match line.split_once(' ') {
            Some(("n" | "no", reason)) if !reason.trim().is_empty() => reason.trim(),
            _ => "answered no at the terminal",
        }),
    })
}

const CHOICE: &str = "\
y  once
s  for this session: this caller and this tool, whatever the arguments
a  always: this caller and this tool with these arguments
e  with other arguments
n  no; what follows is the reason
Run it? [y/s/a/e/N] ";

fn denied(reason: &str) -> Answer {
    Answer::Denied {
        reason: reason.to_owned(),
    }
}

/// Other arguments, from the person's editor, or as one line of JSON where there is none. Nothing when
/// what they wrote is none.
pub fn edit(tty: &mut Tty, args: &Map<String, Value>) -> io::Result<Option<Map<String, Value>>> {
    let editor = std::env::var_os("EDITOR").filter(|it| !it.is_empty());
    let text = match editor {
        Some(editor) => {
            let mut file = tempfile::Builder::new().suffix(".json").tempfile()?;
            serde_json::to_writer_pretty(&mut file, args)?;
            // An editor may have arguments of its own, such as `code --wait`.
            let status = Command::new("sh")
                .args(["-c", "exec $0 \"$1\""])
                .arg(editor)
                .arg(file.path())
                .stdin(tty.0.get_ref().try_clone()?)
                .stdout(tty.0.get_ref().try_clone()?)
                .status()?;
            match status.success() {
                true => std::fs::read_to_string(file.path())?,
                false => String::new(),
            }
        }
        None => {
            tty.say("The arguments, as one line of JSON: ")?;
            tty.line()?.unwrap_or_default()
        }
    };
    match json::parse(&text) {
        Ok(Value::Object(args)) => Ok(Some(args)),
        Ok(_) => tty.say("that is no JSON object\n").map(|()| None),
        Err(err) => tty.say(&format!("{err}\n")).map(|()| None),
    }
}

fn in_words(asked: &Authority) -> String {
    let mut parts = Vec::new();
    if asked.network != Network::None.to_string() {
        parts.push(format!("the network: {}", asked.network));
    }
    if !asked.read.is_empty() {
        parts.push(format!("reading {}", asked.read.join(", ")));
    }
    if !asked.write.is_empty() {
        parts.push(format!("writing {}", asked.write.join(", ")));
    }
    if !asked.secrets.is_empty() {
        parts.push(format!("the secrets {}", asked.secrets.join(", ")));
    }
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => spelled_out(&parts.join("; ")),
    }
}
