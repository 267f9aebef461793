//! Warm launchers, kept by profile.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::launcher::ARGUMENT;
use super::message::{read_strength, read_unavailable};
use super::wire::{Control, Frame, Kind};
use crate::{StartError, Strength};

/// An unused launcher is kept this long.
const IDLE: Duration = Duration::from_secs(60);
/// A launcher that was told to go and is still there after this is killed.
const GRACE: Duration = Duration::from_secs(2);
/// A launcher that does not answer for this long is given up.
const PATIENCE: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(250);

/// A running launcher and the socket to it.
pub(super) struct Launcher {
    process: process::Child,
    pub(super) control: Control,
    pub(super) strength: Strength,
    /// The profile as the launcher was told it.
    setup: Arc<[u8]>,
}

impl Launcher {
    /// Waits for the next message; an error when the launcher is gone or silent.
    pub(super) fn answer(&mut self) -> io::Result<Frame> {
        answer(&mut self.control)
    }
}

fn answer(control: &mut Control) -> io::Result<Frame> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(frame) = control.buffered()? {
            return Ok(frame);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.try_into().map_err(|_| io::ErrorKind::TimedOut)?;
        match poll(
            &mut [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)],
            Some(&left),
        ) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if control.fill_one()? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
    }
}

struct Idle {
    launcher: Launcher,
    since: Instant,
}

/// The launchers that wait, and the thread that clears away those that are no longer needed.
pub(super) struct Pool {
    program: PathBuf,
    idle: Mutex<HashMap<Arc<[u8]>, Vec<Idle>>>,
    retired: mpsc::Sender<process::Child>,
}

impl Pool {
    pub(super) fn new(program: PathBuf) -> Arc<Pool> {
        let (retired, arriving) = mpsc::channel();
        let pool = Arc::new(Pool {
            program,
            idle: Mutex::default(),
            retired,
        });
        let weak = Arc::downgrade(&pool);
        // Without the thread nothing is reaped early, which costs memory and no correctness.
        let _ = thread::Builder::new()
            .name("glee-launchers".into())
            .spawn(move || clear_away(&weak, &arriving));
        pool
    }

    /// A launcher that waits, if there is one.
    pub(super) fn take_idle(&self, setup: &[u8]) -> Option<Launcher> {
        self.idle().get_mut(setup)?.pop().map(|it| it.launcher)
    }

    pub(super) fn put(&self, launcher: Launcher) {
        let idle = Idle {
            since: Instant::now(),
            launcher,
        };
        self.idle()
            .entry(idle.launcher.setup.clone())
            .or_default()
            .push(idle);
    }

    /// Sends a launcher away: its socket ends, so it and all of its tree end, and the process is waited for later.
    pub(super) fn retire(&self, launcher: Launcher) {
        // A copy of the socket that some other process holds must not keep the tree alive.
        let _ = shutdown(&launcher.control, Shutdown::Both);
        let _ = self.retired.send(launcher.process);
    }

    /// Starts a launcher and waits until it holds the profile.
    pub(super) fn start_launcher(&self, setup: &[u8]) -> Result<Launcher, StartError> {
        let (mut control, process) = self.spawn()?;
        let told = control
            .send(Kind::Setup, setup, &[])
            .and_then(|()| answer(&mut control));
        let frame = match told {
            Ok(frame) => frame,
            Err(err) => {
                let _ = self.retired.send(process);
                return Err(err.into());
            }
        };
        match frame.kind {
            Kind::Ready => {
                let strength = read_strength(&frame.body).map_err(io::Error::from)?;
                Ok(Launcher {
                    process,
                    control,
                    strength,
                    setup: setup.into(),
                })
            }
            kind => {
                let _ = self.retired.send(process);
                if kind != Kind::Unavailable {
                    return Err(StartError::Io(io::ErrorKind::InvalidData.into()));
                }
                let it = read_unavailable(&frame.body).map_err(io::Error::from)?;
                Err(StartError::Unavailable {
                    layer: it.layer,
                    why: it.why,
                    what_to_do: it.what_to_do,
                })
            }
        }
    }

    fn spawn(&self) -> io::Result<(Control, process::Child)> {
        let (ours, theirs): (OwnedFd, OwnedFd) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let process = Command::new(&self.program)
            .arg(ARGUMENT)
            .env_clear()
            .current_dir(Path::new("/"))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok((Control::new(ours), process))
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Vec<Idle>>> {
        // The map is whole after every statement, so a panic elsewhere has broken nothing in it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_stale(&self) -> Vec<Launcher> {
        let mut stale = Vec::new();
        self.idle().retain(|_, launchers| {
            stale.extend(
                launchers
                    .extract_if(.., |it| it.since.elapsed() > IDLE)
                    .map(|it| it.launcher),
            );
            !launchers.is_empty()
        });
        stale
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle());
        for it in idle.into_values().flatten() {
            self.retire(it.launcher);
        }
    }
}

/// Retires launchers nobody has used for a while, and waits for those that were retired.
fn clear_away(pool: &Weak<Pool>, arriving: &mpsc::Receiver<process::Child>) {
    let mut leaving: Vec<(process::Child, Instant)> = Vec::new();
    loop {
        let closed = match arriving.recv_timeout(TICK) {
            Ok(process) => {
                leaving.push((process, Instant::now()));
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        leaving.retain_mut(|(process, since)| {
            if since.elapsed() > GRACE {
                let _ = process.kill();
            }
            matches!(process.try_wait(), Ok(None))
        });
        if let Some(pool) = pool.upgrade() {
            for launcher in pool.take_stale() {
                pool.retire(launcher);
            }
        }
        if closed {
            if leaving.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
