//! One child process from start to end: its streams bounded, its deadline kept, its whole tree gone
//! afterwards.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::outcome::{Failure, FailureKind, Truncated};
use glee_core::permission::Network;
use glee_core::redact::Redactor;
use glee_core::template::Template;
use glee_sandbox::{
    Child, Confinement, End, Exit, Order, PROXY_ADDRESS, Profile, StartError, Tier,
};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe;

use super::cage::Cage;
use super::denied;

/// Where programs are looked for, and what a tool finds in its own PATH.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// How much of a stream goes into a failure.
const SHOWN: usize = 16 << 10;

/// Room, in an answer, for what stands before the result itself.
const ANSWER_HEAD: usize = 64 << 10;

pub(super) struct Job {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    pub(super) stdin: Vec<u8>,
    /// What the child can read from descriptor 3; with it, it can answer on descriptor 4.
    pub(super) request: Option<Vec<u8>>,
}

pub(super) struct Finished {
    pub(super) exit: Exit,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) answer: Captured,
}

/// The beginning of a stream, and how long it really was.
#[derive(Default)]
pub(super) struct Captured {
    pub(super) bytes: Vec<u8>,
    pub(super) total: u64,
}

impl Captured {
    pub(super) fn truncated(&self) -> Option<Truncated> {
        let kept = self.bytes.len() as u64;
        (self.total > kept).then_some(Truncated {
            kept,
            total: Some(self.total),
        })
    }

    /// For people and models: the end of it, where programs say what went wrong. Secrets go before
    /// it is cut, because half of one would be recognised by nobody.
    pub(super) fn shown(&self, call: &Admitted) -> String {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let redactor = Redactor::new(call.secrets());
        let text = match self.truncated() {
            Some(_) => redactor.cut_text(text),
            None => redactor.text(text),
        };
        match text.len().checked_sub(SHOWN) {
            None | Some(0) => text,
            Some(start) => format!("…{}", &text[text.ceil_char_boundary(start)..]),
        }
    }
}

/// Where a call runs: what holds it, and a private directory that is gone afterwards.
pub(super) struct Place {
    profile: Profile,
    scratch: Scratch,
}

enum Scratch {
    /// The sandbox gives every call a /tmp of its own.
    OfSandbox,
    OfHost(TempDir),
}

impl Place {
    pub(super) async fn make(call: &Admitted, cage: &Cage) -> Result<Place, Failure> {
        let mut profile = cage.profile(call.spec(), call.root())?;
        let strength = cage.strength(profile.clone()).await?;
        let scratch = match strength.tier {
            Tier::Full | Tier::FullWithoutCgroup => Scratch::OfSandbox,
            Tier::Landlock | Tier::None => {
                let directory = host_scratch()?;
                profile.write.push(directory.path().to_owned());
                Scratch::OfHost(directory)
            }
        };
        Ok(Place { profile, scratch })
    }

    pub(super) fn scratch(&self) -> &Path {
        match &self.scratch {
            Scratch::OfSandbox => Path::new("/tmp"),
            Scratch::OfHost(directory) => directory.path(),
        }
    }

    /// The working directory, if it exists inside. Otherwise the tool has no use for it, and starts in
    /// its scratch directory.
    pub(super) fn cwd(&self, wanted: PathBuf) -> Result<PathBuf, Failure> {
        let real = wanted
            .canonicalize()
            .ok()
            .filter(|it| it.is_dir())
            .ok_or_else(|| {
                let message = format!(
                    "the working directory `{}` does not exist",
                    wanted.display()
                );
                Failure::new(FailureKind::ExecutionError, message)
            })?;
        let seen = exists_inside(&self.profile, &real);
        let confined = self.profile.confinement != Confinement::Off;
        Ok(if confined && !seen {
            self.scratch().to_owned()
        } else {
            real
        })
    }
}

/// Whether a directory is there in the sandbox: granted, or on the way to something granted.
pub(super) fn exists_inside(profile: &Profile, directory: &Path) -> bool {
    let mut granted = profile.read.iter().chain(&profile.write);
    granted.any(|it| directory.starts_with(it) || it.starts_with(directory))
}

fn host_scratch() -> Result<TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("glee-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|err| {
            Failure::new(
                FailureKind::Internal,
                format!("no scratch directory could be made: {err}"),
            )
        })
}

/// The clean environment of a child: nothing of glee's own gets in.
pub(super) fn environment(
    call: &Admitted,
    extra: &[(String, Template)],
    scratch: &Path,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), scratch.into()),
        ("TMPDIR".into(), scratch.into()),
        ("LANG".into(), "C.UTF-8".into()),
    ];
    if let Network::Hosts(_) = call.grant().network {
        for name in [
            "http_proxy",
            "https_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "all_proxy",
        ] {
            env.push((name.into(), format!("http://{PROXY_ADDRESS}").into()));
        }
    }
    let mut set = |name: &str, value: String| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value.into()));
    };
    for (name, secret) in call.secrets() {
        set(name, secret.reveal().to_owned());
    }
    let scope = call.scope();
    for (name, template) in extra {
        if let Some(value) = template.text(&scope).map_err(too_large)? {
            if value.contains('\0') {
                return Err(invalid(format!(
                    "the environment variable `{name}` cannot hold NUL"
                )));
            }
            set(name, value);
        }
    }
    Ok(env)
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
    let keep = call.spec().limits.output_bytes;
    let (child, streams) = start(job, place, call, cage).await?;
    let captured = async {
        let (stdout, stderr, answer, (), ()) = tokio::join!(
            capture(streams.stdout, keep),
            capture(streams.stderr, keep),
            capture(streams.answer, keep + ANSWER_HEAD),
            feed(streams.stdin),
            feed(streams.request),
        );
        (stdout, stderr, answer)
    };
    let ended = until(&child, call);
    let (stop, (stdout, stderr, answer)) = tokio::join!(ended, captured);
    let finished = |exit| Finished {
        exit,
        stdout,
        stderr,
        answer,
    };
    match stop {
        Stop::Ended(Ok(end)) => match end.limit {
            None => Ok(finished(end.exit)),
            Some(limit) => Err(with_output(
                Failure::new(
                    FailureKind::ExecutionError,
                    format!(
                        "`{}` was stopped: it exceeded its limit of {}",
                        call.spec().name,
                        limit.name(),
                    ),
                )
                .with("limit", limit.name()),
                &finished(end.exit),
                call,
            )),
        },
        Stop::Ended(Err(err)) => Err(Failure::new(
            FailureKind::Internal,
            format!("the tool's process was lost: {err}"),
        )),
        Stop::Deadline(after) => Err(with_output(
            Failure::new(
                FailureKind::Timeout,
                format!(
                    "`{}` was stopped after {} ms",
                    call.spec().name,
                    after.as_millis()
                ),
            )
            .with("timeout_ms", after.as_millis() as u64)
            .hint("raise timeout_ms in the manifest if it needs longer"),
            &finished(Exit::Signal(9)),
            call,
        )),
        Stop::Cancelled => Err(with_output(
            Failure::new(
                FailureKind::Cancelled,
                format!("`{}` was cancelled and stopped", call.spec().name),
            ),
            &finished(Exit::Signal(9)),
            call,
        )),
    }
}

/// What the tool said before it was stopped belongs to the answer.
fn with_output(failure: Failure, finished: &Finished, call: &Admitted) -> Failure {
    failure
        .with("stdout", finished.stdout.shown(call))
        .with("stderr", finished.stderr.shown(call))
}

enum Stop {
    Ended(io::Result<End>),
    Deadline(Duration),
    Cancelled,
}

async fn until(child: &Child, call: &Admitted) -> Stop {
    let stop = tokio::select! {
        end = ended(child) => return Stop::Ended(end),
        () = tokio::time::sleep(call.timeout()) => Stop::Deadline(call.timeout()),
        () = call.cancel().cancelled() => Stop::Cancelled,
    };
    child.kill();
    // The streams end, and the answer is given, only when the whole tree is gone.
    match ended(child).await {
        Ok(_) => stop,
        Err(err) => Stop::Ended(Err(err)),
    }
}

async fn ended(child: &Child) -> io::Result<End> {
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

struct Streams {
    stdin: Option<(pipe::Sender, Vec<u8>)>,
    request: Option<(pipe::Sender, Vec<u8>)>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    answer: Option<pipe::Receiver>,
}

async fn start(
    job: Job,
    place: &Place,
    call: &Admitted,
    cage: &Cage,
) -> Result<(Child, Streams), Failure> {
    let broken = |err: io::Error| {
        Failure::new(
            FailureKind::Internal,
            format!("no pipe could be made: {err}"),
        )
    };
    let (stdin_child, stdin) = into_child(job.stdin).map_err(broken)?;
    let (stdout, stdout_child) = from_child().map_err(broken)?;
    let (stderr, stderr_child) = from_child().map_err(broken)?;
    let mut fds = vec![stdin_child, stdout_child, stderr_child];
    let (mut request, mut answer) = (None, None);
    if let Some(bytes) = job.request {
        let (child, ours) = into_child(bytes).map_err(broken)?;
        fds.push(child);
        request = Some(ours);
        let (ours, child) = from_child().map_err(broken)?;
        fds.push(child);
        answer = Some(ours);
    }
    let order = Order {
        program: job.program,
        args: job.args,
        env: job.env,
        cwd: job.cwd,
        fds,
    };
    let profile = place.profile.clone();
    let sandbox = cage.sandbox.clone();
    let name = call.spec().name.clone();
    let child = tokio::task::spawn_blocking(move || sandbox.start(&profile, order))
        .await
        .map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?
        .map_err(|err| start_failure(&name, err))?;
    Ok((
        child,
        Streams {
            stdin: Some(stdin),
            request,
            stdout: Some(stdout),
            stderr: Some(stderr),
            answer,
        },
    ))
}

pub(super) fn start_failure(tool: &str, err: StartError) -> Failure {
    let kind = match &err {
        StartError::NotFound(_) | StartError::NotExecutable(_) | StartError::Cwd(_) => {
            FailureKind::ExecutionError
        }
        StartError::TooLarge | StartError::Nul { .. } => FailureKind::InvalidInput,
        StartError::Unavailable { .. } => FailureKind::SandboxUnavailable,
        StartError::Io(_) => FailureKind::Internal,
    };
    Failure::new(kind, format!("`{tool}` could not be started: {err}"))
}

fn into_child(bytes: Vec<u8>) -> io::Result<(OwnedFd, (pipe::Sender, Vec<u8>))> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&write)?;
    Ok((read, (pipe::Sender::from_owned_fd(write)?, bytes)))
}

pub(super) fn from_child() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&read)?;
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(fd, true)?;
    Ok(())
}

/// A child that does not read its input is no failure.
async fn feed(into: Option<(pipe::Sender, Vec<u8>)>) {
    if let Some((mut pipe, bytes)) = into {
        let _ = pipe.write_all(&bytes).await;
    }
}

/// Reads to the end, keeps the beginning. A child is never blocked by what is thrown away.
pub(super) async fn capture(from: Option<pipe::Receiver>, keep: usize) -> Captured {
    let mut captured = Captured::default();
    let Some(mut pipe) = from else {
        return captured;
    };
    let mut chunk = vec![0; 64 << 10];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        captured.total += length as u64;
        let room = keep - captured.bytes.len();
        captured.bytes.extend_from_slice(&chunk[..length.min(room)]);
    }
    captured
}

/// Adds what the sandbox seems to have refused, if the words of the program point to something.
pub(super) fn teach(failure: Failure, call: &Admitted, said: &str) -> Failure {
    let denied = denied::find(said, call.root(), call.grant());
    match denied::hint(&denied) {
        Some(hint) => failure.with("denied", denied).hint(hint),
        None => failure,
    }
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
    let failure = teach(failure, call, &finished.stderr.shown(call));
    let failure = failure.with("stderr", Value::String(finished.stderr.shown(call)));
    match finished.stdout.bytes.is_empty() {
        true => failure,
        false => failure.with("stdout", finished.stdout.shown(call)),
    }
}
