//! The Linux implementation.
//!
//! Four kinds of processes take part. *glee* holds a [`Sandbox`]. A *launcher* is `<launcher> __launcher`, started
//! once per profile and running call; it makes the namespaces. The *warden* is its child, process 1 of a PID
//! namespace and already confined; it starts the *payload*, the program that was ordered, and ends its tree.

mod bridge;
mod cell;
mod cgroup;
mod child;
mod gate;
mod gatekeeper;
mod grants;
mod kernel;
mod landlock;
mod lane;
mod launcher;
mod limits;
mod message;
mod namespaces;
mod notification;
mod payload;
mod placeholder;
mod pool;
mod privileges;
mod program;
mod report;
mod root;
mod sandbox;
mod script;
mod seccomp;
mod telling;
mod tiers;
mod tree;
mod warden;
mod wire;

pub use bridge::{PROXY_ADDRESS, launcher_behind};
pub use child::Child;
pub use launcher::run_if_launcher;
pub use placeholder::is_at as is_placeholder;
pub use privileges::hide_this_process;
pub use sandbox::Sandbox;
