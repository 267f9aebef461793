//! A program that a function of glee's own starts: held like any command, and told what it said.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glee_core::admit::Admitted;
use glee_core::outcome::{Failure, FailureKind, Held, Truncated};
use glee_sandbox::Exit;

use super::cage::Cage;
use super::denied::{self, Denied, Granted};
use super::entrypoint::find_in;
use super::place::{self, Place};
use super::process::{self, Job, invalid};
use super::streams::{Captured, NOTES};

pub(crate) struct Program {
    /// The program, by its name in the system's path or by its own, and its arguments.
    pub(crate) words: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// For the program alone: nothing that starts it reads them.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: String,
    pub(crate) timeout: Duration,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// As shells have it: 128 and the signal for one that was ended by a signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) duration: Duration,
    /// What was cut of both.
    pub(crate) truncated: Option<Truncated>,
    /// What it was refused, if it did not end well.
    pub(crate) denied: Vec<Denied>,
}

/// A place to run programs in.
pub(crate) struct Cell<'a> {
    cage: &'a Cage,
    call: &'a Admitted,
    place: Place,
}

impl Cage {
    /// Makes ready what holds the programs of a call to its permissions, or refuses.
    pub(crate) async fn cell<'a>(
        &'a self,
        call: &'a Admitted,
    ) -> Result<(Held, Cell<'a>), Failure> {
        let (held, place) = Place::make(call, self).await?;
        let cage = self;
        Ok((held, Cell { cage, call, place }))
    }
}

impl Cell<'_> {
    /// Whether a program that stands here can be started.
    pub(crate) fn can_start(&self, program: &Path) -> bool {
        self.cage.can_start(program, self.call.root())
    }

    /// The same, where nothing can be written but what is gone afterwards.
    pub(crate) async fn reading(&self) -> Result<Cell<'_>, Failure> {
        let Cell { cage, call, place } = self;
        let place = place.reading(call, cage).await?;
        Ok(Cell { cage, call, place })
    }

    pub(crate) async fn run(&self, program: Program) -> Result<Ended, Failure> {
        let Cell { cage, call, place } = self;
        let (name, args) = program
            .words
            .split_first()
            .ok_or_else(|| invalid("there is no program to run".to_owned()))?;
        let path = cage.path();
        let entrypoint = find_in(&path, call.root(), name).map_err(|why| {
            let hint = "a person lists where it is installed under `builtins.programs` in .glee/config.yml";
            Failure::new(FailureKind::ExecutionError, why).hint(hint)
        })?;
        let mut env = place::environment(call, &[], place.surroundings(), NOTES)?;
        env.retain(|(known, _)| known != "PATH");
        env.push(("PATH".into(), path.into()));
        for (name, value) in program.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let name = name.escape_debug();
                return Err(invalid(format!(
                    "`{name}` cannot be an environment variable"
                )));
            }
            env.retain(|(known, _)| *known != *name);
            env.push((name.into(), value.into()));
        }
        if args.iter().any(|it| it.contains('\0')) {
            return Err(invalid(
                "an argument of a program cannot hold NUL".to_owned(),
            ));
        }
        let job = Job {
            entrypoint,
            args: args.iter().map(OsString::from).collect(),
            env,
            cwd: place.cwd(program.cwd)?,
            stdin: program.stdin.into_bytes(),
            request: None,
            timeout: program.timeout.min(call.timeout()),
        };
        let began = Instant::now();
        let finished = process::run(job, place, call, cage).await?;
        let code = match finished.exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        };
        let (known, granted) = (&finished.refused.denials, Granted::of(call));
        let denied = match code {
            0 => Vec::new(),
            _ => denied::told(known, Vec::new(), call.secrets(), granted),
        };
        Ok(Ended {
            code,
            denied,
            duration: began.elapsed(),
            truncated: both(finished.stdout.truncated(), finished.stderr.truncated()),
            stdout: text(&finished.stdout),
            stderr: text(&finished.stderr),
        })
    }
}

impl Ended {
    /// What it was refused, for whoever has its output as well.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let sentences = self.denied.iter().map(|it| it.sentence.clone());
        sentences.collect()
    }
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.bytes).into_owned()
}

fn both(stdout: Option<Truncated>, stderr: Option<Truncated>) -> Option<Truncated> {
    match (stdout, stderr) {
        (Some(one), Some(other)) => Some(Truncated {
            kept: one.kept + other.kept,
            total: one.total.zip(other.total).map(|(one, other)| one + other),
        }),
        (one, other) => one.or(other),
    }
}
