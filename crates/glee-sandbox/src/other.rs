//! Systems without a confinement: everything compiles, and nothing is started.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use crate::{
    End, Kernel, Layer, LayerState, Moment, Order, Profile, Recall, Refusal, StartError, State,
    Strength, Tier,
};

const WHY: &str = "this system is not Linux";

pub const PROXY_ADDRESS: &str = "127.0.0.1:3128";

pub fn run_if_launcher() {}

pub fn is_placeholder(_: &std::path::Path) -> bool {
    false
}

pub fn launcher_behind(_: impl AsFd) -> Option<u32> {
    None
}

pub fn hide_this_process() -> io::Result<()> {
    Ok(())
}

impl Kernel {
    pub fn of_this_machine() -> Kernel {
        Kernel {
            landlock: None,
            cgroup: None,
        }
    }
}

#[derive(Clone)]
pub struct Sandbox(());

impl Sandbox {
    pub fn new(_launcher: PathBuf) -> Sandbox {
        Sandbox(())
    }

    pub fn at_most(launcher: PathBuf, _tier: Tier) -> Sandbox {
        Sandbox::new(launcher)
    }

    pub fn expect(&self) {}

    pub fn start(&self, profile: &Profile, order: Order) -> Result<Child, StartError> {
        self.start_as(profile, &Strength::nothing(), order, &Recall::default())
    }

    pub fn start_as(
        &self,
        _profile: &Profile,
        _said: &Strength,
        _order: Order,
        _recall: &Recall,
    ) -> Result<Child, StartError> {
        Err(StartError::Unavailable {
            layer: "all layers".into(),
            why: WHY.into(),
            what_to_do: "run glee on Linux".into(),
        })
    }

    pub fn strength(&self, profile: &Profile) -> Strength {
        self.strength_unless(profile, &Recall::default())
    }

    pub fn strength_unless(&self, _profile: &Profile, _recall: &Recall) -> Strength {
        let layers = Layer::ALL
            .into_iter()
            .map(|layer| LayerState {
                layer,
                state: State::Missing { why: WHY.into() },
            })
            .collect();
        Strength {
            tier: Tier::None,
            layers,
        }
    }
}

/// No child can exist here.
pub struct Child(Infallible);

impl Child {
    pub fn kill(&self) {
        match self.0 {}
    }

    pub fn try_wait(&self) -> io::Result<Option<End>> {
        match self.0 {}
    }

    pub fn wait(&self) -> io::Result<End> {
        match self.0 {}
    }

    pub fn strength(&self) -> &Strength {
        match self.0 {}
    }

    pub fn refused(&self) -> Vec<Refusal> {
        match self.0 {}
    }

    pub fn begin(&mut self) {
        match self.0 {}
    }

    pub fn since(&self) -> Moment {
        match self.0 {}
    }

    pub fn launcher_id(&self) -> u32 {
        match self.0 {}
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
