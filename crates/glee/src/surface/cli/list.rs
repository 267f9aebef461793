//! `glee list`: the tools of a project, a line each.

use serde_json::json;

use super::status::Status;
use super::{Session, print};
use crate::exec::Stay;

pub(super) fn run(session: &Session) -> anyhow::Result<Status> {
    let app = session.app(Stay::ForOneCall)?;
    let tools = app.tools();
    if session.json {
        let listed: Vec<_> = tools
            .tools()
            .map(|it| {
                json!({
                    "name": it.name, "title": it.title, "description": it.description,
                    "kind": it.exec.kind(), "version": it.version, "tags": it.tags,
                })
            })
            .collect();
        print::json(&listed.into())?;
        return Ok(Status::Ok);
    }
    let width = tools
        .tools()
        .map(|it| it.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut lines = String::new();
    for tool in tools.tools() {
        let summary = tool.description.lines().next().unwrap_or_default();
        lines.push_str(&format!(
            "{:width$}  {:7}  {summary}\n",
            tool.name,
            tool.exec.kind()
        ));
    }
    match lines.is_empty() {
        true => print::note(
            "note",
            "36",
            "there are no tools yet; `glee new command NAME` makes one",
        ),
        false => print::out(&lines)?,
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
