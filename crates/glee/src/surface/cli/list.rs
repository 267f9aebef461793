//! `glee list`: the tools of a project, a line each.

use glee_core::bundle::Member;
use glee_core::catalog::Snapshot;
use glee_core::model::{Origin, Standing, ToolSpec};
use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::exec::Stay;

/// List the tools that can be used.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  glee list\n  glee list --all")]
pub(super) struct Args {
    /// Also those that cannot be used now, and why
    #[arg(long)]
    all: bool,
}

struct Row<'a> {
    name: &'a str,
    kind: &'a str,
    about: &'a str,
    state: State<'a>,
    told: Value,
}

enum State<'a> {
    Usable,
    /// Its switch is off, or its bundle's, or that is deleted.
    Disabled,
    Pending,
    Denied,
    Broken(&'a str),
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    let tools = app.tools();
    let mut rows: Vec<Row> = tools.tools().map(|it| row(&tools, it)).collect();
    rows.extend(tools.members().filter_map(|it| broken(it)));
    rows.sort_by_key(|it| it.name);
    let there = rows.len();
    rows.retain(|it| args.all || matches!(it.state, State::Usable));
    if session.json {
        print::json(&rows.into_iter().map(|it| it.told).collect())?;
        return Ok(Status::Ok);
    }
    let width = rows.iter().map(|it| it.name.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut lines = String::new();
    for row in &rows {
        let summary = row.about.lines().next().unwrap_or_default();
        let mark = row.state.mark();
        lines.push_str(&format!(
            "{:width$}  {:7}  {summary}{mark}\n",
            row.name, row.kind
        ));
    }
    if !lines.is_empty() {
        print::out(&lines)?;
    }
    match there - rows.len() {
        _ if there == 0 => {
            let note = "there are no tools yet; `glee new command NAME` makes one";
            print::note("note", "36", note);
        }
        0 => {}
        hidden => {
            let more = print::plural(hidden, "more tool");
            let note = format!("{more} cannot be used now; `glee list --all` shows why");
            print::note("note", "36", &note);
        }
    }
    for (name, reason) in tools.broken() {
        print::note(
            "warning",
            "33",
            &format!("`{name}` cannot be used: {reason}; run `glee lint`"),
        );
    }
    Ok(Status::Ok)
}

impl State<'_> {
    fn name(&self) -> &'static str {
        match self {
            State::Usable => "usable",
            State::Disabled => "disabled",
            State::Pending => "pending",
            State::Denied => "denied",
            State::Broken(_) => "broken",
        }
    }

    fn mark(&self) -> String {
        match self {
            State::Usable => String::new(),
            State::Disabled => " (disabled)".to_owned(),
            State::Pending => " (waits for review)".to_owned(),
            State::Denied => " (denied)".to_owned(),
            State::Broken(why) => format!(" (cannot be used: {why})"),
        }
    }
}

fn row<'a>(tools: &Snapshot, tool: &'a ToolSpec) -> Row<'a> {
    let standing = standing(tool);
    let state = match standing {
        Some(Standing::Pending) => State::Pending,
        Some(Standing::Denied { .. }) => State::Denied,
        None | Some(Standing::Approved) => match tools.find(&tool.name) {
            Ok(_) => State::Usable,
            Err(_) => State::Disabled,
        },
    };
    Row {
        name: &tool.name,
        kind: tool.exec.kind(),
        about: &tool.description,
        told: json!({
            "name": tool.name, "title": tool.title, "description": tool.description,
            "kind": tool.exec.kind(), "version": tool.version, "tags": tool.tags,
            "review": standing.map(Standing::name), "state": state.name(),
        }),
        state,
    }
}

/// A tool of a bundle that nothing can be made of here.
fn broken(member: &Member) -> Option<Row<'_>> {
    let why = member.spec.as_ref().err()?;
    let state = State::Broken(why);
    Some(Row {
        name: &member.name,
        kind: member.kind,
        about: &member.description,
        told: json!({
            "name": member.name, "title": member.title, "description": member.description,
            "kind": member.kind, "version": member.key.version, "tags": member.tags,
            "review": null, "state": state.name(), "reason": why,
        }),
        state,
    })
}

/// What people think of the tool, when an agent made it.
fn standing(tool: &ToolSpec) -> Option<&Standing> {
    match &tool.origin {
        Origin::User | Origin::BuiltIn => None,
        Origin::Agent { standing, .. } => Some(standing),
    }
}
