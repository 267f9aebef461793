//! `glee doctor`: what glee finds on this machine and in this project.

use std::path::Path;
use std::process::Command;

use glee_sandbox::Kernel;
use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::app::cage_without_project;
use crate::dialect::bundle::Surroundings;
use crate::dialect::problem::Severity;
use crate::exec::find_interpreter;
use crate::lint;
use crate::project::Project;
use crate::store::bundles::Bundles;
use crate::store::journal::{self, Place};

/// What was looked at, and what was found or is wrong.
type Finding = (&'static str, Result<String, String>);

pub(super) fn run(session: &Session) -> anyhow::Result<Status> {
    let mut findings = vec![
        ("glee", Ok(env!("CARGO_PKG_VERSION").to_owned())),
        ("kernel", Ok(kernel())),
        ("python", python()),
    ];
    findings.extend(sandbox()?);
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
            Ok(found) => format!("ok  {what:12} {found}"),
            Err(problem) => format!("--  {what:12} {problem}"),
        })?;
    }
    Ok(Status::Ok)
}

/// The best this machine can do, and each layer of it.
fn sandbox() -> anyhow::Result<Vec<Finding>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let best = match runtime.block_on(cage_without_project().best()) {
        Ok(best) => best,
        Err(failure) => return Ok(vec![("sandbox", Err(failure.message))]),
    };
    let missing: Vec<&str> = best
        .layers
        .iter()
        .filter(|it| it.1.is_err())
        .map(|it| it.0)
        .collect();
    let tier = match missing.as_slice() {
        [] => Ok(format!("{}: every layer holds", best.tier)),
        _ => Err(format!(
            "{}: not enforced here: {}",
            best.tier,
            missing.join(", ")
        )),
    };
    let kernel = Kernel::of_this_machine();
    let layers = best
        .layers
        .into_iter()
        .map(|(name, state)| (name, state.map(|()| holds(name, kernel))));
    Ok([("sandbox", tier)].into_iter().chain(layers).collect())
}

/// In which form a layer holds, where there are several.
fn holds(layer: &str, kernel: Kernel) -> String {
    match (layer, kernel) {
        (
            "landlock",
            Kernel {
                landlock: Some(version @ ..6),
                ..
            },
        ) => {
            format!("holds, ABI {version}: files; signals and abstract sockets need ABI 6")
        }
        (
            "landlock",
            Kernel {
                landlock: Some(version),
                ..
            },
        ) => format!("holds, ABI {version}"),
        (
            "cgroup",
            Kernel {
                cgroup: Some(version),
                ..
            },
        ) => format!("holds, version {version}"),
        _ => "holds".to_owned(),
    }
}

fn python() -> Result<String, String> {
    let path = find_interpreter(Path::new("/"), None)?;
    let asked = Command::new(&path)
        .args(["-I", "--version"])
        .output()
        .map_err(|err| format!("{}: {err}", path.display()))?;
    let version = String::from_utf8_lossy(&asked.stdout);
    Ok(format!("{}, {}", version.trim(), path.display()))
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}

fn of_project(project: &Project) -> Vec<Finding> {
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
    let mut findings = vec![root, ("tools", tools)];
    findings.extend(bundles(project).map(|it| ("bundles", it)));
    findings.extend(secrets(project).map(|it| ("secrets", it)));
    findings.push(("audit", audit(project)));
    findings
}

/// Where there are any.
fn bundles(project: &Project) -> Option<Result<String, String>> {
    let loaded = match Bundles::new(project.bundles()).load(&Surroundings::default()) {
        Ok(loaded) => loaded,
        Err(err) => return Some(Err(err.to_string())),
    };
    let (bundles, tools) = (loaded.bundles.len(), loaded.members.len());
    let strays = loaded.strays.iter();
    let told: Vec<String> = strays.map(|(file, why)| format!("{file}: {why}")).collect();
    match (told.is_empty(), bundles) {
        (false, _) => Some(Err(format!(
            "{} cannot be used, and is left as it is: {}",
            print::plural(told.len(), "file"),
            told.join("; ")
        ))),
        (true, 0) => None,
        (true, _) => Some(Ok(format!(
            "{}, {}",
            print::plural(bundles, "bundle"),
            print::plural(tools, "tool")
        ))),
    }
}

/// By name only, and only where tools declare some.
fn secrets(project: &Project) -> Option<Result<String, String>> {
    match lint::secrets(project) {
        Err(err) => Some(Err(err.to_string())),
        Ok((0, _)) => None,
        Ok((count, problems)) if problems.is_empty() => {
            Some(Ok(format!("{count} declared, all set")))
        }
        Ok((_, problems)) => Some(Err(problems.join("; "))),
    }
}

/// What can be told of the journal without reading all of it.
fn audit(project: &Project) -> Result<String, String> {
    let report = Place::of(project.root(), project.audit())
        .and_then(|it| journal::look(&it))
        .map_err(|err| err.to_string())?;
    let problems = report
        .problems
        .iter()
        .map(|it| format!("{}: {}", it.file, it.what));
    let told: Vec<String> = problems.chain(report.notes.iter().cloned()).collect();
    match told.is_empty() {
        true => Ok(format!(
            "{}, sealed",
            print::plural(report.events as usize, "event")
        )),
        false => Err(format!("{}; run `glee audit verify`", told.join("; "))),
    }
}
