//! `glee approvals`: what waits for a person, and the person's answers.

use std::collections::BTreeMap;

use anyhow::bail;
use glee_core::json;
use glee_core::name::spelled_out;
use glee_core::outcome::Failure;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::status::{self, Status};
use super::{Session, print};
use crate::app::App;
use crate::approve::ledger::Decision;
use crate::approve::terminal::{self, Shown, Tty};
use crate::exec::Stay;
use crate::store::approvals::LOOK;
use crate::store::record::{Record, Said, State};

/// See what waits for a person, and answer.
///
/// A call that needs a person's yes is kept until somebody answers it, or until it expires, which is a
/// no. A yes is good for one run of exactly what was shown.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee approvals list\n  glee approvals approve 0190c6f2-…\n  glee approvals approve 0190c6f2-… --modify '{\"path\": \"notes/b.txt\"}'\n  glee approvals deny 0190c6f2-… --reason 'not on a Friday'"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List what waits for an answer
    List {
        /// Those in another state: approved, denied, expired, started, finished, indeterminate; or all
        #[arg(long, value_name = "STATE", default_value = "pending", value_parser = wanted)]
        state: Wanted,
    },
    /// Show everything about one
    Show {
        /// Its id
        id: Uuid,
    },
    Approve(Approve),
    /// Say no; the reason reaches whoever called
    Deny {
        /// Its id
        id: Uuid,

        /// Why not
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Tell of each question and each answer as they come, until Ctrl-C
    Watch,
}

/// Say yes, at a terminal.
///
/// What is approved is shown, and asked about once more. Programs cannot answer here: they use
/// `POST /approvals/ID/approve` of `glee serve`, with a token that has the scope `approve`.
#[derive(clap::Args)]
struct Approve {
    /// Its id
    id: Uuid,

    /// Run these arguments in place of those that were asked about
    #[arg(long, value_name = "JSON", conflicts_with = "edit")]
    modify: Option<String>,

    /// Edit the arguments, in $EDITOR
    #[arg(long)]
    edit: bool,

    /// For how long: once; session, for this caller and tool while the server runs; always, by a rule in .glee/rules.yml
    #[arg(long, value_name = "SCOPE", default_value = "once", value_parser = scope)]
    scope: Said,

    /// With --scope always: let an argument be anything that fits a pattern with * and ?
    #[arg(long, value_name = "NAME=PATTERN", value_parser = pattern)]
    fitting: Vec<(String, String)>,
}

#[derive(Clone, Copy)]
struct Wanted(Option<State>);

fn wanted(name: &str) -> Result<Wanted, String> {
    match State::named(name) {
        Some(state) => Ok(Wanted(Some(state))),
        None if name == "all" => Ok(Wanted(None)),
        None => Err("there is no such state".to_owned()),
    }
}

fn scope(name: &str) -> Result<Said, String> {
    Said::scope(name).ok_or_else(|| "the scopes are once, session and always".to_owned())
}

fn pattern(text: &str) -> Result<(String, String), String> {
    let (name, pattern) = text.split_once('=').ok_or("write NAME=PATTERN")?;
    Ok((name.to_owned(), pattern.to_owned()))
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    match args.command {
        Command::List { state } => list(&app, state, session.json),
        Command::Show { id } => show(&app, id, session.json),
        Command::Approve(args) => approve(&app, args, session.json),
        Command::Deny { id, reason } => {
            let decided = app.decide(id, Decision::Deny { reason }, terminal::NAME);
            told(decided, session.json)
        }
        Command::Watch => watch(&app, session.json),
    }
}

fn list(app: &App, wanted: Wanted, json: bool) -> anyhow::Result<Status> {
    let mut all = app.approvals().list()?;
    all.retain(|it| wanted.0.is_none_or(|state| it.state == state));
    if json {
        print::json(&all.iter().map(Record::for_people).collect())?;
        return Ok(Status::Ok);
    }
    let lines: Vec<String> = all.iter().map(line).collect();
    match lines.is_empty() {
        true => print::note("approvals", "2", "nothing is there"),
        false => print::out(&lines.join("\n"))?,
    }
    Ok(Status::Ok)
}

fn line(record: &Record) -> String {
    format!(
        "{}  {:13}  {}  {} by {}",
        record.id,
        record.state.name(),
        record.asked_at.strftime("%Y-%m-%d %H:%M"),
        record.tool,
        spelled_out(&record.caller),
    )
}

fn found(app: &App, id: Uuid) -> anyhow::Result<Record> {
    match app.approvals().get(id)? {
        Some(record) => Ok(record),
        None => bail!("there is no approval {id}; `glee approvals list --state all` shows all"),
    }
}

fn show(app: &App, id: Uuid, json: bool) -> anyhow::Result<Status> {
    let record = found(app, id)?;
    match json {
        true => print::json(&record.for_people())?,
        false => print::out(&in_words(app, &record))?,
    }
    Ok(Status::Ok)
}

fn in_words(app: &App, record: &Record) -> String {
    let mut text = format!("{}\n\n", shown(app, record).text());
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:9} {value}\n"));
    row("state", record.state.name().to_owned());
    row("asked", record.asked_at.to_string());
    row("expires", record.expires_at.to_string());
    if let Some(answer) = &record.answer {
        let (said, by) = (answer.said.name(), spelled_out(&answer.by));
        row("answer", format!("{said}, by {by} at {}", answer.at));
        if !answer.reason.is_empty() {
            row("reason", spelled_out(&answer.reason));
        }
        if let Some(args) = &answer.modified_args {
            let args = Value::Object(args.clone()).to_string();
            row("runs", spelled_out(&args));
        }
    }
    if let Some(why) = &record.void {
        row("void", why.clone());
    }
    if let Some(end) = &record.finished {
        row("finished", format!("{} at {}", end.outcome, end.at));
    }
    text
}

fn shown(app: &App, record: &Record) -> Shown {
    let spec = app.tools().find(&record.tool).ok();
    Shown {
        caller: record.caller.clone(),
        tool: record.tool.clone(),
        description: spec.map(|it| it.description.clone()).unwrap_or_default(),
        reason: record.reason.clone(),
        args: record.args.clone(),
        authority: record.authority.clone(),
    }
}

fn approve(app: &App, args: Approve, json: bool) -> anyhow::Result<Status> {
    // Whoever can run this command could be an agent; whoever sits at a terminal is not.
    if !terminal::is_there() {
        bail!(
            "a yes is given by a person at a terminal; programs use POST /approvals/{}/approve of `glee serve`, with a token that has the scope approve",
            args.id
        );
    }
    if !args.fitting.is_empty() && args.scope != Said::Always {
        bail!("--fitting is for --scope always: what runs once runs as it was shown");
    }
    let record = found(app, args.id)?;
    let given = match &args.modify {
        None => None,
        Some(text) => match json::parse(text)? {
            Value::Object(args) => Some(args),
            _ => bail!("--modify must be a JSON object"),
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (asked, edits) = (shown(app, &record), args.edit);
    let talk = move |tty: &mut Tty| choose(tty, asked, given, edits);
    let Chosen::Yes(modified) = runtime.block_on(terminal::converse(talk))? else {
        print::note("approvals", "2", "it still waits for an answer");
        return Ok(Status::Refused);
    };
    let decision = Decision::Approve {
        scope: args.scope,
        modified,
        patterns: args.fitting,
    };
    told(app.decide(args.id, decision, terminal::NAME), json)
}

enum Chosen {
    /// With other arguments, if so.
    Yes(Option<Map<String, Value>>),
    No,
}

fn choose(
    tty: &mut Tty,
    mut asked: Shown,
    given: Option<Map<String, Value>>,
    edits: bool,
) -> std::io::Result<Chosen> {
    let modified = match edits {
        true => match terminal::edit(tty, &asked.args)? {
            Some(args) => Some(args),
            None => return Ok(Chosen::No),
        },
        false => given,
    };
    if let Some(args) = &modified {
        asked.args = args.clone();
        tty.say("With other arguments than were asked for:\n")?;
    }
    tty.say(&format!("{}\nApprove it? [y/N] ", asked.text()))?;
    let line = tty.line()?.unwrap_or_default();
    Ok(match line.to_ascii_lowercase().as_str() {
        "y" | "yes" => Chosen::Yes(modified),
        _ => Chosen::No,
    })
}

fn told(decided: Result<Record, Failure>, json: bool) -> anyhow::Result<Status> {
    match decided {
        Ok(record) if json => print::json(&record.for_people())?,
        Ok(record) => print::out(&format!("{} is {}", record.id, record.state.name()))?,
        Err(failure) => {
            print::refusal(&failure, json)?;
            return Ok(status::of(failure.kind));
        }
    }
    Ok(Status::Ok)
}

fn watch(app: &App, json: bool) -> anyhow::Result<Status> {
    let mut seen: BTreeMap<Uuid, State> = BTreeMap::new();
    let looking = async {
        loop {
            for record in app.approvals().list()? {
                if seen.insert(record.id, record.state) != Some(record.state) {
                    match json {
                        true => print::out(&record.for_people().to_string())?,
                        false => print::out(&line(&record))?,
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            ended = looking => ended,
            () = super::run::stop_signal() => Ok(Status::Ok),
        }
    })
}
