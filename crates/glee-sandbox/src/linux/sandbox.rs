//! Starts children through launchers.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::child::Child;
use super::message::{Step, read_failed, write_order};
use super::pool::{Launcher, Origin, Pool, Terms};
use super::wire::{Kind, MAX_FDS};
use crate::{Layer, LayerState, Order, Profile, Recall, StartError, State, Strength, Tier};

/// Starts confined children. One per process; cheap to clone; holds the pool of launchers.
#[derive(Clone)]
pub struct Sandbox {
    pool: Arc<Pool>,
}

impl Sandbox {
    /// `launcher` is the program whose `main` calls [`run_if_launcher`](crate::run_if_launcher) first, normally this
    /// very program.
    pub fn new(launcher: PathBuf) -> Sandbox {
        Sandbox::at_most(launcher, Tier::Full)
    }

    /// Like [`Sandbox::new`], but attempts no more than the given tier: to see what a weaker machine would do.
    pub fn at_most(launcher: PathBuf, tier: Tier) -> Sandbox {
        Sandbox {
            pool: Pool::new(launcher, tier),
        }
    }

    /// Something will be started soon; what does not depend on its profile is begun now, meanwhile.
    pub fn expect(&self) {
        self.pool.expect();
    }

    /// Starts a child. Blocks until it has executed, about as long as a plain spawn when a launcher is warm.
    pub fn start(&self, profile: &Profile, order: Order) -> Result<Child, StartError> {
        self.start_as(profile, &Strength::nothing(), order, &Recall::default())
    }

    /// The same, held by no less than was said of the profile before, and unless it is called off meanwhile.
    pub fn start_as(
        &self,
        profile: &Profile,
        said: &Strength,
        order: Order,
        recall: &Recall,
    ) -> Result<Child, StartError> {
        let terms = Terms::new(profile)?;
        let body = write_order(&order)?;
        if order.fds.len() > MAX_FDS {
            return Err(StartError::TooLarge);
        }
        let launcher = self.hand_over(&terms, said, &order, &body, recall)?;
        self.follow(launcher, &order, recall)
    }

    /// Finds a launcher that takes the order. One that waited may have died since, which is no reason to fail the call;
    /// but once an order was taken it is not given to another, or it might be run twice.
    fn hand_over(
        &self,
        terms: &Terms<'_>,
        said: &Strength,
        order: &Order,
        body: &[u8],
        recall: &Recall,
    ) -> Result<Launcher, StartError> {
        let fds: Vec<_> = order.fds.iter().map(AsFd::as_fd).collect();
        loop {
            let (mut launcher, origin) = self.pool.take(terms, recall)?;
            if recall.is_called_off() {
                self.pool.put(launcher);
                return Err(StartError::CalledOff);
            }
            // A launcher that comes up later may find less than the first one did.
            if let Some((layer, why)) = launcher.strength.lacks(said) {
                let less = StartError::Unavailable {
                    layer: layer.to_string(),
                    why: why.to_owned(),
                    what_to_do: "it was there before; what is left is told by the next call"
                        .to_owned(),
                };
                self.pool.put(launcher);
                return Err(less);
            }
            match launcher.order(body, &fds, recall) {
                Ok(()) => return Ok(launcher),
                Err(err) => {
                    self.pool.retire(launcher);
                    if origin == Origin::New {
                        return Err(err);
                    }
                }
            }
        }
    }

    /// What this machine can hold of the profile. Leaves a warm launcher behind.
    pub fn strength(&self, profile: &Profile) -> Strength {
        self.strength_unless(profile, &Recall::default())
    }

    /// The same, unless it is called off meanwhile.
    pub fn strength_unless(&self, profile: &Profile, recall: &Recall) -> Strength {
        let taken = Terms::new(profile).and_then(|terms| self.pool.take(&terms, recall));
        match taken {
            Ok((launcher, _)) => {
                let strength = launcher.strength.clone();
                self.pool.put(launcher);
                strength
            }
            Err(err) => nothing(&err),
        }
    }

    /// Waits for what became of an order.
    fn follow(
        &self,
        mut launcher: Launcher,
        order: &Order,
        recall: &Recall,
    ) -> Result<Child, StartError> {
        match launcher.answer(recall) {
            Ok(frame) if frame.kind == Kind::Started => Ok(Child::new(launcher, self.pool.clone())),
            Ok(frame) if frame.kind == Kind::Failed => {
                self.pool.put(launcher);
                let failed = read_failed(&frame.body).map_err(io::Error::from)?;
                Err(explain(failed.step, failed.errno, order))
            }
            Ok(_) => {
                self.pool.retire(launcher);
                Err(StartError::Io(io::ErrorKind::InvalidData.into()))
            }
            Err(err) => {
                self.pool.retire(launcher);
                Err(err)
            }
        }
    }
}

fn explain(step: Step, errno: i32, order: &Order) -> StartError {
    match (step, errno) {
        (Step::Cwd, _) => StartError::Cwd(order.cwd.clone()),
        (Step::Checked, _) => StartError::Replaced(order.program.clone()),
        (Step::Exec, libc::ENOENT | libc::ENOTDIR) => StartError::NotFound(order.program.clone()),
        (Step::Exec, libc::EACCES | libc::ENOEXEC | libc::EISDIR) => {
            StartError::NotExecutable(order.program.clone())
        }
        (Step::Exec, libc::E2BIG) => StartError::TooLarge,
        _ => StartError::Io(io::Error::from_raw_os_error(errno)),
    }
}

/// The strength when not even a launcher came up.
fn nothing(err: &StartError) -> Strength {
    let layers = Layer::ALL
        .into_iter()
        .map(|layer| LayerState {
            layer,
            state: State::Missing {
                why: err.to_string(),
            },
        })
        .collect();
    Strength {
        tier: Tier::None,
        layers,
    }
}
