//! `glee search`: tools by what they do.

use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::app::Listed;
use crate::exec::Stay;

/// Find tools by words, the likeliest first
///
/// Names and titles that begin like the query come first, then tools that hold its words, then those that
/// hold nearly the same; among equals the newest.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  glee search weather\n  glee search send message --limit 3")]
pub(super) struct Args {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,

    /// Most tools to print
    #[arg(long, value_name = "COUNT", default_value_t = 25)]
    limit: usize,

    /// Also tools that cannot be called now
    #[arg(long)]
    all: bool,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let app = session.app(Stay::ForOneCall)?;
    let listed = match args.all {
        true => Listed::All,
        false => Listed::Usable,
    };
    let hits = app.search(&args.words.join(" "), None, args.limit, listed);
    if session.json {
        let found: Vec<Value> = hits
            .iter()
            .map(|it| {
                let member = &it.member;
                json!({
                    "name": member.name, "title": member.title, "description": member.description,
                    "kind": member.kind, "version": member.key.version, "tags": member.tags,
                    "bundle": member.key.bundle.to_string(), "slug": member.key.slug,
                })
            })
            .collect();
        print::json(&found.into())?;
        return Ok(Status::Ok);
    }
    if hits.is_empty() {
        let why = "no tool matches; `glee list` shows all";
        print::note("note", "36", why);
    }
    let names = hits.iter().map(|it| it.member.name.chars().count());
    let width = names.max().unwrap_or(0);
    for hit in &hits {
        let member = &hit.member;
        let summary = member.description.lines().next().unwrap_or_default();
        print::out(&format!("{:width$}  {summary}", member.name))?;
    }
    Ok(Status::Ok)
}
