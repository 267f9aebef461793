//! A running child, seen from glee.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, poll};

use super::message::{Then, read_end};
use super::pool::{Launcher, Pool};
use super::wire::{Kind, Peeked};
use crate::{End, Moment, Refusal, Strength};

/// A running child and its tree.
///
/// The descriptor becomes readable when the end is known and stays so, so that an async caller can wait for readiness.
/// Dropping a child kills its tree.
pub struct Child {
    /// Present until drop.
    launcher: Option<Launcher>,
    pool: Arc<Pool>,
    end: OnceLock<End>,
}

impl Child {
    pub(super) fn new(launcher: Launcher, pool: Arc<Pool>) -> Child {
        Child {
            launcher: Some(launcher),
            pool,
            end: OnceLock::new(),
        }
    }

    /// Kills the whole tree. Does nothing when it has ended.
    pub fn kill(&self) {
        if self.end.get().is_none() {
            // When the launcher is gone its tree is, too.
            let _ = self.launcher().control.send(Kind::Kill, &[], &[]);
        }
    }

    /// The end, once the whole tree is gone.
    pub fn try_wait(&self) -> io::Result<Option<End>> {
        if let Some(end) = self.end.get() {
            return Ok(Some(*end));
        }
        match self.launcher().control.peek()? {
            Peeked::Nothing => Ok(None),
            Peeked::Gone => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the launcher was killed",
            )),
            Peeked::Frame(Kind::Ended, body) => {
                let (end, _) = read_end(&body)?;
                Ok(Some(*self.end.get_or_init(|| end)))
            }
            Peeked::Frame(..) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn wait(&self) -> io::Result<End> {
        loop {
            if let Some(end) = self.try_wait()? {
                return Ok(end);
            }
            match poll(
                &mut [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)],
                None,
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(err) => return Err(err.into()),
            }
        }
    }

    /// What is held of the child's profile.
    pub fn strength(&self) -> &Strength {
        &self.launcher().strength
    }

    /// What the child was refused, each once and only as much as can be told: the destinations that its outbound network
    /// does not reach. Telling it forgets it.
    pub fn refused(&self) -> Vec<Refusal> {
        match &self.launcher().told {
            Some(told) => told.take(self.since()),
            None => Vec::new(),
        }
    }

    /// Whatever was asked for until now is no matter of what follows, for a child that does more than one thing.
    pub fn begin(&mut self) {
        if let Some(launcher) = &mut self.launcher {
            launcher.begin();
        }
    }

    /// When the child was started, or began what it does now. Its launcher did something else before.
    pub fn since(&self) -> Moment {
        self.launcher().since
    }

    /// The number of the process beside which the bridge to the proxy is, see
    /// [`launcher_behind`](crate::launcher_behind). It is no other's as long as the child is there.
    pub fn launcher_id(&self) -> u32 {
        self.launcher().id()
    }

    fn launcher(&self) -> &Launcher {
        self.launcher
            .as_ref()
            .expect("a child has its launcher until it is dropped")
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.launcher().control.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut launcher) = self.launcher.take() else {
            return;
        };
        // The end is still in the socket, so that the descriptor stayed readable; now it is taken out.
        let then = launcher
            .answer_if_there()
            .and_then(|frame| Ok(read_end(&frame.body).map_err(io::Error::from)?.1));
        match then {
            Ok(then) => {
                launcher.awaits_warden = then == Then::Fresh;
                self.pool.put(launcher);
            }
            Err(_) => self.pool.retire(launcher),
        }
    }
}
