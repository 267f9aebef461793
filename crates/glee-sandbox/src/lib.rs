//! Confines one child process, and starts such children fast.
//!
//! The crate knows paths, sockets and limits; it does not know tools. A [`Sandbox`] keeps a pool of launchers, small
//! processes of their own that have entered the confinement of one [`Profile`] and wait there for an [`Order`]. The
//! process that uses this crate is itself never forked and never enters a namespace.

mod address;
mod end;
mod error;
mod moment;
mod profile;
mod recall;
mod refusal;
mod strength;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

pub use address::is_public;
pub use end::{End, Exit, Limit};
pub use error::StartError;
pub use moment::Moment;
pub use profile::{Checked, Confinement, IpRange, Limits, Network, Order, Profile};
pub use recall::Recall;
pub use refusal::{Refusal, Transport};
pub use strength::{Kernel, Layer, LayerState, State, Strength, Tier};

#[cfg(target_os = "linux")]
pub use linux::{
    Child, PROXY_ADDRESS, Sandbox, hide_this_process, is_placeholder, launcher_behind,
    run_if_launcher,
};
#[cfg(not(target_os = "linux"))]
pub use other::{
    Child, PROXY_ADDRESS, Sandbox, hide_this_process, is_placeholder, launcher_behind,
    run_if_launcher,
};
