//! The sandbox for any program, as a person asks for it: `glee sandbox exec` and `probe`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use glee_core::model::Limits;
use glee_core::outcome::{Failure, FailureKind, Held};
use glee_core::permission::{Grant, Network};
use glee_core::secret::SecretValues;
use glee_sandbox::{Child, Confinement, End, Exit, PROXY_ADDRESS, Profile, Recall};

use super::cage::{Cage, held, limits, protected};
use super::denied::{Denied, Granted, told};
use super::entrypoint::find_entrypoint;
use super::guessed::{Setting, from_words};
use super::place::{PATH, exists_inside, has_own_root};
use super::process::start_failure;
use super::streams::{Captured, capture, from_child};

/// A program and what it may touch.
pub struct ByHand {
    pub words: Vec<String>,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub network: Network,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    pub timeout: Option<Duration>,
    /// What no grant opens lies below this directory.
    pub root: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// The program talks to whoever glee talks to.
    Shared,
    /// What it says comes back.
    Captured,
}

pub struct Ran {
    /// The exit code, or 128 and the signal, as shells have it.
    pub code: i32,
    pub held: Held,
    pub limit: Option<&'static str>,
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
    /// What it was refused, if it did not end well.
    pub denied: Vec<Denied>,
}

impl Cage {
    pub async fn run_by_hand(&self, wanted: ByHand, streams: Streams) -> Result<Ran, Failure> {
        let profile = self.profile_by_hand(&wanted)?;
        self.run_in(profile, wanted, streams).await
    }

    /// The same, held by nothing: to see whether an attempt would succeed at all.
    pub async fn run_unheld(&self, wanted: ByHand, streams: Streams) -> Result<Ran, Failure> {
        let profile = Profile {
            confinement: Confinement::Off,
            ..self.profile_by_hand(&wanted)?
        };
        self.run_in(profile, wanted, streams).await
    }

    fn profile_by_hand(&self, wanted: &ByHand) -> Result<Profile, Failure> {
        let real = |paths: &[PathBuf]| -> Result<Vec<PathBuf>, Failure> {
            let found = paths.iter().map(|it| {
                it.canonicalize()
                    .map_err(|err| invalid(format!("{}: {err}", it.display())))
            });
            found.collect()
        };
        let write = real(&wanted.write)?;
        let read = real(&wanted.read)?;
        Ok(Profile {
            confinement: self.confinement,
            network: self.network(&wanted.network)?,
            protect: protected(&wanted.root, &write),
            hide: self.hidden_from(&wanted.root, &read, &write)?,
            read,
            write,
            limits: limits(&Limits::default()),
        })
    }

    async fn run_in(
        &self,
        mut profile: Profile,
        wanted: ByHand,
        streams: Streams,
    ) -> Result<Ran, Failure> {
        let Some((program, args)) = wanted.words.split_first() else {
            return Err(invalid("there is no program to run".to_owned()));
        };
        let entrypoint = find_entrypoint(&wanted.cwd, program).map_err(invalid)?;
        profile.read.extend(entrypoint.path.canonicalize().ok());
        let strength = self.strength(profile.clone()).await?;
        let confined = profile.confinement != Confinement::Off;
        let cwd = if confined && !exists_inside(&profile, &wanted.cwd) {
            PathBuf::from("/tmp")
        } else {
            wanted.cwd.clone()
        };
        let mut env = vec![
            ("PATH", PATH),
            ("HOME", "/tmp"),
            ("TMPDIR", "/tmp"),
            ("LANG", "C.UTF-8"),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect::<Vec<_>>();
        if has_own_root(strength.tier) && matches!(wanted.network, Network::Hosts(_)) {
            for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
                env.push((name.into(), format!("http://{PROXY_ADDRESS}").into()));
            }
        }
        env.extend(
            wanted
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let (fds, stdout, stderr) =
            open(streams).map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
        let order = entrypoint.order(args.iter().map(Into::into).collect(), env, cwd, fds);
        let grant = Grant {
            network: wanted.network,
            read: profile.read.clone(),
            write: profile.write.clone(),
        };
        let (sandbox, holds) = (self.sandbox.clone(), strength.clone());
        let start = move || sandbox.start_as(&profile, &holds, order, &Recall::default());
        let child = tokio::task::spawn_blocking(start)
            .await
            .map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?
            .map_err(|err| start_failure(&wanted.words[0], err))?;
        let child = Arc::new(child);
        let keep = Limits::default().output_bytes;
        let (ended, out, err) = tokio::join!(
            end(child.clone(), wanted.timeout),
            said(stdout, keep),
            said(stderr, keep)
        );
        let (end, timed_out) =
            ended.map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
        let code = match end.exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        };
        let refused = self.refused(&child, &grant.network);
        let (stdout, stderr) = (text(&out), text(&err));
        let setting = Setting {
            tier: refused.tier,
            root: &wanted.root,
            cwd: &wanted.cwd,
            grant: &grant,
            protected: &|writable| protected(&wanted.root, writable),
        };
        let denied = match code {
            0 => Vec::new(),
            _ => told(
                &refused.denials,
                from_words(&stderr, &setting),
                &SecretValues::new(),
                Granted::OnCommandLine,
            ),
        };
        Ok(Ran {
            code,
            denied,
            held: held(&strength),
            limit: end.limit.map(|it| it.name()),
            timed_out,
            stdout,
            stderr,
        })
    }
}

/// Waits on a thread of its own, so that Ctrl-C and the deadline can end the child meanwhile.
async fn end(child: Arc<Child>, timeout: Option<Duration>) -> io::Result<(End, bool)> {
    let waiting = child.clone();
    let mut ended = tokio::task::spawn_blocking(move || waiting.wait());
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let timed_out = tokio::select! {
        end = &mut ended => return Ok((end.map_err(io::Error::other)??, false)),
        () = deadline => true,
        _ = tokio::signal::ctrl_c() => false,
    };
    child.kill();
    Ok((ended.await.map_err(io::Error::other)??, timed_out))
}

type Opened = (
    Vec<OwnedFd>,
    Option<tokio::net::unix::pipe::Receiver>,
    Option<tokio::net::unix::pipe::Receiver>,
);

fn open(streams: Streams) -> io::Result<Opened> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    match streams {
        Streams::Shared => {
            let stdout = io::stdout().as_fd().try_clone_to_owned()?;
            let stderr = io::stderr().as_fd().try_clone_to_owned()?;
            Ok((vec![stdin, stdout, stderr], None, None))
        }
        Streams::Captured => {
            let (stdout, out) = from_child()?;
            let (stderr, err) = from_child()?;
            Ok((vec![stdin, out, err], Some(stdout), Some(stderr)))
        }
    }
}

async fn said(stream: Option<tokio::net::unix::pipe::Receiver>, keep: usize) -> Captured {
    match stream {
        Some(stream) => capture(stream, keep).await,
        None => Captured::default(),
    }
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.bytes).into_owned()
}

fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidInput, message)
}
