//! `glee doctor`: what glee finds on this machine and in this project.

use std::path::Path;

use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::app::cage_without_project;
use crate::dialect::problem::Severity;
use crate::exec::find_interpreter;
use crate::lint;
use crate::project::Project;

pub(super) fn run(session: &Session) -> anyhow::Result<Status> {
    let mut findings = vec![
        ("glee", Ok(env!("CARGO_PKG_VERSION").to_owned())),
        ("kernel", Ok(kernel())),
        (
            "python",
            find_interpreter(Path::new("/"), None).map(|it| it.display().to_string()),
        ),
        ("sandbox", sandbox()?),
    ];
    match session.project() {
        Err(err) => findings.push(("project", Err(err.to_string()))),
        Ok(project) => findings.extend(of_project(&project)),
    }
    if session.json {
        let found: serde_json::Map<String, Value> = findings
            .into_iter()
            .map(|(what, found)| {
                let value = match found {
                    Ok(found) => json!({"ok": true, "found": found}),
                    Err(problem) => json!({"ok": false, "problem": problem}),
                };
                (what.to_owned(), value)
            })
            .collect();
        print::json(&found.into())?;
        return Ok(Status::Ok);
    }
    for (what, found) in findings {
        print::out(&match found {
            Ok(found) => format!("ok  {what:8} {found}"),
            Err(problem) => format!("--  {what:8} {problem}"),
        })?;
    }
    Ok(Status::Ok)
}

/// The best this machine can do; a layer that is missing is named with the reason.
fn sandbox() -> anyhow::Result<Result<String, String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(match runtime.block_on(cage_without_project().best()) {
        Ok(held) if held.missing.is_empty() => Ok(format!("{}: every layer holds", held.by)),
        Ok(held) => Err(format!("{}; missing {}", held.by, held.missing.join("; "))),
        Err(failure) => Err(failure.message),
    })
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}

fn of_project(project: &Project) -> Vec<(&'static str, Result<String, String>)> {
    let root = ("project", Ok(project.root().display().to_string()));
    let tools = match lint::lint(project) {
        Err(err) => Err(err.to_string()),
        Ok(report) => match (report.files.len(), report.count(Severity::Error)) {
            (files, 0) => Ok(format!("{}, no errors", print::plural(files, "file"))),
            (files, errors) => Err(format!(
                "{}, {}; run `glee lint`",
                print::plural(files, "file"),
                print::plural(errors, "error")
            )),
        },
    };
    vec![root, ("tools", tools)]
}
