//! A program with an argument vector, never through a shell.

use std::ffi::OsString;
use std::path::Path;

use glee_core::admit::Admitted;
use glee_core::model::{Command, Dashes};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::absolute;
use glee_core::shape::{Body, Raw};
use glee_core::template::{Part, as_text};
use glee_sandbox::Exit;
use serde_json::{Value, json};

use super::cage::Cage;
use super::entrypoint::find_entrypoint;
use super::place::{self, Place, Surroundings};
use super::process::{self, Job, invalid, too_large};
use super::streams::NOTES;

pub(super) async fn run(
    command: &Command,
    call: &Admitted,
    place: Place,
    cage: &Cage,
) -> Result<Raw, Failure> {
    let entrypoint = find_entrypoint(call.root(), &command.entrypoint)
        .map_err(|why| Failure::new(FailureKind::ExecutionError, why))?;
    let job = Job {
        entrypoint,
        args: arguments(command, call)?
            .into_iter()
            .map(OsString::from)
            .collect(),
        env: place::environment(call, &command.env, place.surroundings(), NOTES)?,
        cwd: place.cwd(absolute(call.root(), &command.cwd))?,
        stdin: stdin(command, call)?.unwrap_or_default().into_bytes(),
        request: None,
        timeout: call.timeout(),
    };
    let finished = process::run(job, &place, call, cage).await?;
    match finished.exit {
        Exit::Code(code) if command.exit_codes_ok.contains(&code) => {
            let truncated = finished.stdout.truncated();
            Ok(Raw {
                truncated,
                ..Raw::from(Body::Bytes(finished.stdout.bytes))
            })
        }
        _ => Err(process::bad_exit(call, &finished)),
    }
}

pub(super) fn preview(command: &Command, call: &Admitted) -> Result<Value, Failure> {
    let entrypoint = find_entrypoint(call.root(), &command.entrypoint)
        .map_err(|why| Failure::new(FailureKind::ExecutionError, why))?;
    let mut argv = vec![entrypoint.path.display().to_string()];
    argv.extend(arguments(command, call)?);
    let around = Surroundings {
        scratch: Path::new("<scratch>"),
        has_proxy: true,
    };
    let env: serde_json::Map<String, Value> =
        place::environment(call, &command.env, around, NOTES)?
            .into_iter()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into(),
                )
            })
            .collect();
    Ok(json!({
        "argv": argv,
        "cwd": absolute(call.root(), &command.cwd).display().to_string(),
        "env": env,
        "stdin": stdin(command, call)?,
    }))
}

/// The words after the program's name. An absent argument drops its word; a list that fills a whole
/// word becomes one word per element.
fn arguments(command: &Command, call: &Admitted) -> Result<Vec<String>, Failure> {
    let scope = call.scope();
    let mut words = Vec::new();
    let mut after_dashes = false;
    for template in &command.args {
        for word in template.words(&scope).map_err(too_large)? {
            if word.contains('\0') {
                return Err(invalid("an argument of a command cannot hold NUL".into()));
            }
            // A word that begins with what an argument says would be taken for an option.
            if let Some(Part::Hole(hole)) = template.parts().first()
                && word.starts_with('-')
                && !after_dashes
                && command.dashes == Dashes::Refuse
            {
                return Err(invalid(format!(
                    "`{}` cannot start with `-`: the program would take it for an option",
                    hole.name
                ))
                .with("argument", hole.name.clone())
                .hint("put `--` before it in exec.command.args, or set `allow_dash: true`"));
            }
            after_dashes |= template.whole().is_none() && word == "--";
            words.push(word);
        }
    }
    Ok(words)
}

fn stdin(command: &Command, call: &Admitted) -> Result<Option<String>, Failure> {
    match &command.stdin {
        None => Ok(None),
        Some(template) => Ok(template
            .fill(&call.scope())
            .map_err(too_large)?
            .and_then(as_text)),
    }
}
