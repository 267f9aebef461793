//! `glee list`: the tools of a project, a line each.

use glee_core::model::{Origin, Standing, ToolSpec};
use serde_json::json;

use super::status::Status;
use super::{Session, print};
use crate::exec::Stay;

pub(super) fn run(session: &Session) -> anyhow::Result<Status> {
    let app = session.app(Stay::Briefly)?;
    let tools = app.tools();
    if session.json {
        let listed: Vec<_> = tools
            .tools()
            .map(|it| {
                json!({
                    "name": it.name, "title": it.title, "description": it.description,
                    "kind": it.exec.kind(), "version": it.version, "tags": it.tags,
                    "review": standing(it).map(Standing::name),
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
        let review = match standing(tool) {
            None | Some(Standing::Approved) => String::new(),
            Some(Standing::Pending) => " (waits for review)".to_owned(),
            Some(Standing::Denied { .. }) => " (denied)".to_owned(),
        };
        lines.push_str(&format!(
            "{:width$}  {:7}  {summary}{review}\n",
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

/// What people think of the tool, when an agent made it.
fn standing(tool: &ToolSpec) -> Option<&Standing> {
    match &tool.origin {
        Origin::User | Origin::BuiltIn => None,
        Origin::Agent { standing, .. } => Some(standing),
    }
}
