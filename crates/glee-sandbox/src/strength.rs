//! What a machine can hold of a profile, layer by layer, in words that can be shown to a user.

use std::fmt;

/// What is held of a profile on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strength {
    pub tier: Tier,
    pub layers: Vec<LayerState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    None,
    Landlock,
    FullWithoutCgroup,
    Full,
}

/// One layer and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerState {
    pub layer: Layer,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Enforced,
    Missing { why: String },
}

/// The mechanisms a confinement is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// A PID namespace: the tree dies as one and sees no other process.
    ProcessTree,
    /// A minimal root in a mount namespace.
    Root,
    /// Protected paths inside writable grants.
    Protect,
    Landlock,
    Seccomp,
    /// An empty network namespace, or the connect supervisor.
    Network,
    /// A control group for memory and processes.
    Cgroup,
}

impl Layer {
    pub(crate) const ALL: [Layer; 7] = [
        Layer::ProcessTree,
        Layer::Root,
        Layer::Protect,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Network,
        Layer::Cgroup,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Layer::ProcessTree => "process-tree",
            Layer::Root => "root",
            Layer::Protect => "protect",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Network => "network",
            Layer::Cgroup => "cgroup",
        }
    }
}

/// What the kernel offers to hold a child with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The version of Landlock's rules: files can be cut only by who may write them from 3 on, and signals and abstract
    /// sockets are held from 6 on. The filter holds some of it before.
    pub landlock: Option<u32>,
    /// The version of control groups that can be used.
    pub cgroup: Option<u8>,
}

impl Tier {
    pub(crate) const ALL: [Tier; 4] = [
        Tier::None,
        Tier::Landlock,
        Tier::FullWithoutCgroup,
        Tier::Full,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Tier::None => "none",
            Tier::Landlock => "landlock",
            Tier::FullWithoutCgroup => "full without cgroup",
            Tier::Full => "full",
        }
    }
}

impl Strength {
    pub fn state(&self, layer: Layer) -> Option<&State> {
        self.layers
            .iter()
            .find(|it| it.layer == layer)
            .map(|it| &it.state)
    }

    pub fn enforces(&self, layer: Layer) -> bool {
        self.state(layer) == Some(&State::Enforced)
    }

    /// Nothing, for whoever does not mind.
    pub fn nothing() -> Strength {
        Strength {
            tier: Tier::None,
            layers: Vec::new(),
        }
    }

    /// A layer that holds there and not here, and why.
    pub(crate) fn lacks(&self, there: &Strength) -> Option<(Layer, &str)> {
        self.missing().find(|(layer, _)| there.enforces(*layer))
    }

    pub fn missing(&self) -> impl Iterator<Item = (Layer, &str)> {
        self.layers.iter().filter_map(|it| match &it.state {
            State::Enforced => None,
            State::Missing { why } => Some((it.layer, why.as_str())),
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
