//! `glee audit`: what happened, and whether its record is whole.

mod export;
mod recorded;

use std::time::Duration;

use anyhow::{Context, bail};
use glee_core::name::spelled_out;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::project::Project;
use crate::store::journal::{self, Follow, Place};
use export::Format;

pub(super) use recorded::Recorded;

/// Read the journal of calls, and verify it.
///
/// Every call is in `.glee/audit/journal.jsonl`, one JSON object per event, and in
/// `.glee/audit/tools.log`, for people.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee audit tail -n 20 --follow\n  glee audit show 019b9f5a\n  glee audit verify\n  glee audit export --since 7d --tool deploy --format csv > deploys.csv"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the last events
    Tail {
        /// How many
        #[arg(short, long, value_name = "N", default_value_t = 10)]
        number: usize,

        /// Go on with those that are still to come, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// Print all events of one call
    Show {
        /// The call's id, or its beginning
        call: String,
    },
    /// Tell whether every event is there, as it was written
    ///
    /// Exits with 1 and names the first bad place when one was changed, removed, repeated or moved.
    Verify,
    /// Print events for other programs, the oldest first
    Export {
        /// From this moment on: 2026-01-09, 2026-01-09T15:00:00Z, or 2h for two hours ago
        #[arg(long, value_name = "TIME", value_parser = moment)]
        since: Option<Timestamp>,

        /// Up to this moment
        #[arg(long, value_name = "TIME", value_parser = moment)]
        until: Option<Timestamp>,

        /// Only of this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,

        /// One object per line, or a table
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
    },
}

/// How often a journal that is followed is looked at.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let project = session.project()?;
    match &args.command {
        Command::Tail { number, follow } => tail(&project, *number, *follow, session.json),
        Command::Show { call } => show(&project, call, session.json),
        Command::Verify => verify(&project, session.json),
        Command::Export {
            since,
            until,
            tool,
            format,
        } => {
            let wanted = |it: &Recorded| {
                let at = it.at();
                since.is_none_or(|since| at.is_some_and(|at| at >= since))
                    && until.is_none_or(|until| at.is_some_and(|at| at <= until))
                    && tool.as_ref().is_none_or(|tool| it.text("tool") == tool)
            };
            export::export(&project.audit(), *format, wanted)?;
            Ok(Status::Ok)
        }
    }
}

fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(date) = text.parse::<Date>() {
        let midnight = date.to_zoned(TimeZone::UTC);
        return midnight
            .map(|it| it.timestamp())
            .map_err(|err| err.to_string());
    }
    let ago = |span: Span| Timestamp::now().to_zoned(TimeZone::UTC).checked_sub(span);
    match text.parse::<Span>().and_then(ago) {
        Ok(at) => Ok(at.timestamp()),
        Err(_) => Err("neither a date, nor a time such as 2026-01-09T15:00:00Z, nor 2h".to_owned()),
    }
}

fn tail(project: &Project, number: usize, follow: bool, json: bool) -> anyhow::Result<Status> {
    let directory = project.audit();
    // Before the end is read, so that nothing falls between; what is seen twice is told once.
    let mut coming = Follow::begin(&directory)?;
    let mut last = 0;
    for line in journal::last(&directory, number)? {
        last = told(&line, json)?.unwrap_or(last);
    }
    if !follow {
        return Ok(Status::Ok);
    }
    loop {
        for line in coming.more()? {
            let is_new = Recorded::read(&line).is_none_or(|it| it.seq() > last);
            if is_new {
                told(&line, json)?;
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// Prints a line, and gives the number of its event.
fn told(line: &str, json: bool) -> anyhow::Result<Option<u64>> {
    match Recorded::read(line) {
        Some(event) if json => {
            print::out(line)?;
            Ok(Some(event.seq()))
        }
        Some(event) => {
            print::out(&event.as_line())?;
            Ok(Some(event.seq()))
        }
        None => {
            print::note(
                "warning",
                "33",
                "a line is not an event; run `glee audit verify`",
            );
            Ok(None)
        }
    }
}

/// The events of the one call whose id begins so.
pub(super) fn of_call(project: &Project, call: &str) -> anyhow::Result<Vec<Recorded>> {
    let call = call.to_ascii_lowercase();
    if call.len() < 4 {
        bail!("`{call}` is too short for the beginning of an id");
    }
    let needle = format!("\"id\":\"{call}");
    let mut events: Vec<Recorded> = Vec::new();
    for line in journal::lines(&project.audit())? {
        let line = line?;
        if line.contains(&needle)
            && let Some(event) = Recorded::read(&line)
            && event.text("id").starts_with(&call)
        {
            if events
                .first()
                .is_some_and(|it| it.text("id") != event.text("id"))
            {
                bail!("more than one call begins with {call}; give more of its id");
            }
            events.push(event);
        }
    }
    if events.is_empty() {
        bail!("there is no call {call}; `glee audit tail` shows the last ones");
    }
    Ok(events)
}

fn show(project: &Project, call: &str, json: bool) -> anyhow::Result<Status> {
    let events = of_call(project, call)?;
    match json {
        true => print::json(&events.into_iter().map(Recorded::into_value).collect())?,
        false => {
            for event in &events {
                print::out(&event.as_paragraph())?;
            }
        }
    }
    Ok(Status::Ok)
}

fn verify(project: &Project, json: bool) -> anyhow::Result<Status> {
    let place = place(project)?;
    let report = journal::verify(&place).context("the journal cannot be verified")?;
    if json {
        let problems: Vec<Value> = report
            .problems
            .iter()
            .map(|it| json!({"seq": it.seq, "file": it.file, "line": it.line, "what": it.what}))
            .collect();
        print::json(&json!({
            "whole": report.problems.is_empty(),
            "events": report.events,
            "problems": problems,
            "notes": report.notes,
        }))?;
    } else {
        for it in &report.problems {
            let line = match it.line {
                0 => String::new(),
                line => format!(":{line}"),
            };
            let (file, what) = (spelled_out(&it.file), spelled_out(&it.what));
            print::out(&format!("{file}{line}: event {}: {what}", it.seq))?;
        }
        for note in &report.notes {
            print::out(&format!("note: {}", spelled_out(note)))?;
        }
        let events = print::plural(report.events as usize, "event");
        match report.problems.is_empty() {
            true => print::out(&format!("{events}, chain whole"))?,
            false => print::out(&format!("the chain is broken; {events} as written"))?,
        }
    }
    Ok(match report.problems.is_empty() {
        true => Status::Ok,
        false => Status::Failed,
    })
}

pub(super) fn place(project: &Project) -> anyhow::Result<Place> {
    Ok(Place::of(project.root(), project.audit())?)
}
