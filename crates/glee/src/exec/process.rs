//! One child process from start to end: its streams bounded, its deadline kept, its whole tree gone
//! afterwards.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::model::Exec;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::absolute;
use glee_core::port::Consent;
use glee_sandbox::{Child, End, Exit, Order, Recall, StartError};
use serde_json::Value;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::cage::{Cage, protected_from};
use super::denied::{self, Denial, Granted, Known};
use super::entrypoint::Entrypoint;
use super::guessed::{Setting, from_words};
use super::place::Place;
use super::streams::{Captured, Collected, Streams};

pub(super) struct Job {
    pub(super) entrypoint: Entrypoint,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    pub(super) stdin: Vec<u8>,
    /// What the child can read from descriptor 3; with it, it can answer on descriptor 4.
    pub(super) request: Option<Vec<u8>>,
    pub(super) timeout: Duration,
}

pub(super) struct Finished {
    pub(super) exit: Exit,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) answer: Captured,
    pub(super) refused: Known,
}

pub(super) fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidInput, message)
}

pub(super) fn too_large(err: glee_core::template::TooLarge) -> Failure {
    invalid(err.to_string())
}

/// Runs the job to its end, its deadline or the caller's cancellation. When this returns, nothing
/// of it is running any more; when it is dropped, the tree is killed.
pub(super) async fn run(
    job: Job,
    place: &Place,
    call: &Admitted,
    cage: &Cage,
) -> Result<Finished, Failure> {
    let timeout = job.timeout;
    let (child, streams) = start(job, place, call, cage).await?;
    let (stop, collected) = streams.follow(until(&child, timeout, call), call).await;
    let refused = cage.refused(&child, &call.grant().network);
    conclude(stop, collected, refused, call)
}

/// What became of a process, as the answer to its call.
pub(super) fn conclude(
    stop: Stop,
    collected: Collected,
    refused: Known,
    call: &Admitted,
) -> Result<Finished, Failure> {
    let name = &call.spec().name;
    let finished = |exit| Finished {
        exit,
        stdout: collected.stdout,
        stderr: collected.stderr,
        answer: collected.answer,
        refused,
    };
    let stopped = |failure: Failure, finished: &Finished| {
        // What the tool said before it was stopped belongs to the answer, and what it was refused: perhaps it waited
        // for that.
        tell(failure, call, finished, Vec::new())
            .with("stdout", finished.stdout.shown(call))
            .with("stderr", finished.stderr.shown(call))
    };
    match stop {
        Stop::Ended(Ok(end)) => match end.limit {
            None => Ok(finished(end.exit)),
            Some(limit) => {
                let message = format!(
                    "`{name}` was stopped: it exceeded its limit of {}",
                    limit.name()
                );
                let failure =
                    Failure::new(FailureKind::ExecutionError, message).with("limit", limit.name());
                Err(stopped(failure, &finished(end.exit)))
            }
        },
        Stop::Ended(Err(err)) => Err(Failure::new(
            FailureKind::Internal,
            format!("the tool's process was lost: {err}"),
        )),
        Stop::Deadline(after) => {
            let message = format!("`{name}` was stopped after {} ms", after.as_millis());
            let failure = Failure::new(FailureKind::Timeout, message)
                .with("timeout_ms", after.as_millis() as u64)
                .hint(match call.spec().exec {
                    Exec::Native(_) => "give it a longer `timeout` if it needs one",
                    _ => "raise timeout_ms in the manifest if it needs longer",
                });
            Err(stopped(failure, &finished(Exit::Signal(9))))
        }
        Stop::Cancelled => {
            let failure = Failure::new(
                FailureKind::Cancelled,
                format!("`{name}` was cancelled and stopped"),
            );
            Err(stopped(failure, &finished(Exit::Signal(9))))
        }
    }
}

/// Why a process is over.
pub(super) enum Stop {
    Ended(io::Result<End>),
    Deadline(Duration),
    Cancelled,
}

pub(super) async fn until(child: &Child, timeout: Duration, call: &Admitted) -> Stop {
    let stop = tokio::select! {
        end = ended(child) => return Stop::Ended(end),
        () = tokio::time::sleep(timeout) => Stop::Deadline(timeout),
        () = call.cancel().cancelled() => Stop::Cancelled,
    };
    child.kill();
    // The streams end, and the answer is given, only when the whole tree is gone.
    match ended(child).await {
        Ok(_) => stop,
        Err(err) => Stop::Ended(Err(err)),
    }
}

pub(super) async fn ended(child: &Child) -> io::Result<End> {
    #[expect(
        deprecated,
        reason = "its successor is `unsafe`; the borrow keeps the descriptor open for as long as it is watched"
    )]
    let ready = AsyncFd::with_interest(child.as_fd(), Interest::READABLE)?;
    loop {
        let mut guard = ready.readable().await?;
        if let Some(end) = child.try_wait()? {
            return Ok(end);
        }
        guard.clear_ready();
    }
}

async fn start(
    job: Job,
    place: &Place,
    call: &Admitted,
    cage: &Cage,
) -> Result<(Child, Streams), Failure> {
    let (fds, streams) = Streams::open(job.stdin, job.request).map_err(no_pipe)?;
    let is_approved = *call.consent() != Consent::NotNeeded || call.spec().origin.is_agent();
    let entrypoint = match is_approved {
        true => job.entrypoint.kept(),
        false => job.entrypoint,
    };
    let order = entrypoint.order(job.args, job.env, job.cwd, fds);
    let child = launch(order, place, call, cage).await?;
    Ok((child, streams))
}

/// Starts a child where the call runs.
pub(super) async fn launch(
    order: Order,
    place: &Place,
    call: &Admitted,
    cage: &Cage,
) -> Result<Child, Failure> {
    let profile = place.profile.clone();
    let said = place.strength.clone();
    let sandbox = cage.sandbox.clone();
    let wanted = Wanted::default();
    let recall = wanted.recall();
    let mut starting =
        tokio::task::spawn_blocking(move || sandbox.start_as(&profile, &said, order, &recall));
    let (started, why) = tokio::select! {
        started = &mut starting => (started, None),
        why = given_up(call) => {
            drop(wanted);
            // Soon, and only then it is certain that nothing of it will run.
            (starting.await, Some(why))
        }
    };
    let started = started.map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
    match (started, why) {
        (Err(StartError::CalledOff), Some(why)) => Err(why),
        (Err(err @ StartError::Unavailable { .. }), _) => {
            cage.forget(&place.asked());
            Err(start_failure(&call.spec().name, err))
        }
        (started, _) => started.map_err(|err| start_failure(&call.spec().name, err)),
    }
}

/// A start that somebody waits for; it is called off when nobody does any more.
#[derive(Default)]
pub(super) struct Wanted(Recall);

impl Wanted {
    pub(super) fn recall(&self) -> Recall {
        self.0.clone()
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.call_off();
    }
}

/// A call that may take only a moment has no less than this to be started: how fast that goes is not up to
/// the tool.
const LEAST_TO_START: Duration = Duration::from_secs(2);

/// Why a call that has not begun is given up, as soon as it is.
pub(super) async fn given_up(call: &Admitted) -> Failure {
    let name = &call.spec().name;
    let patience = call.timeout().max(LEAST_TO_START);
    tokio::select! {
        () = tokio::time::sleep(patience) => {
            let patience = patience.as_millis() as u64;
            let message = format!("`{name}` could not be started within {patience} ms");
            Failure::new(FailureKind::Timeout, message)
                .with("timeout_ms", patience)
                .hint("nothing of it ran; `glee doctor` looks at what tools are started with")
        }
        () = call.cancel().cancelled() => {
            let message = format!("`{name}` was cancelled before it was started");
            Failure::new(FailureKind::Cancelled, message)
        }
    }
}

pub(super) fn no_pipe(err: io::Error) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("no pipe could be made: {err}"),
    )
}

pub(super) fn start_failure(tool: &str, err: StartError) -> Failure {
    let kind = match &err {
        StartError::NotFound(_)
        | StartError::NotExecutable(_)
        | StartError::Replaced(_)
        | StartError::Cwd(_) => FailureKind::ExecutionError,
        StartError::TooLarge | StartError::Nul { .. } => FailureKind::InvalidInput,
        StartError::Unavailable { .. } => FailureKind::SandboxUnavailable,
        StartError::CalledOff => FailureKind::Cancelled,
        StartError::Io(_) => FailureKind::Internal,
    };
    Failure::new(kind, format!("`{tool}` could not be started: {err}"))
}

/// Adds what was refused, and what seems to have been if the words of the program point to something.
pub(super) fn teach(failure: Failure, call: &Admitted, finished: &Finished, said: &str) -> Failure {
    let cwd = match &call.spec().exec {
        Exec::Command(it) => &it.cwd,
        Exec::Python(it) => &it.cwd,
        Exec::Http(_) | Exec::Native(_) => ".",
    };
    let setting = Setting {
        tier: finished.refused.tier,
        root: call.root(),
        cwd: &absolute(call.root(), cwd),
        grant: call.grant(),
        protected: &|writable| protected_from(call.spec(), call.root(), writable),
    };
    tell(failure, call, finished, from_words(said, &setting))
}

fn tell(failure: Failure, call: &Admitted, finished: &Finished, guessed: Vec<Denial>) -> Failure {
    let known = &finished.refused.denials;
    denied::add(
        failure,
        &denied::told(known, guessed, call.secrets(), Granted::of(call)),
    )
}

/// The failure of a process that ended in a way that does not count as success.
pub(super) fn bad_exit(call: &Admitted, finished: &Finished) -> Failure {
    let name = &call.spec().name;
    let failure = match finished.exit {
        Exit::Code(code) => Failure::new(
            FailureKind::ExecutionError,
            format!("`{name}` exited with code {code}"),
        )
        .with("exit_code", code),
        Exit::Signal(signal) => Failure::new(
            FailureKind::ExecutionError,
            format!("`{name}` was ended by signal {signal}"),
        )
        .with("signal", signal),
    };
    let failure = teach(failure, call, finished, &finished.stderr.shown(call));
    let failure = failure.with("stderr", Value::String(finished.stderr.shown(call)));
    match finished.stdout.bytes.is_empty() {
        true => failure,
        false => failure.with("stdout", finished.stdout.shown(call)),
    }
}
