//! glee: a tool is defined once, and any agent can use it, held to its permissions.
//!
//! The binary is a thin `main` around this library; a Rust program can embed it the same way:
//! open an [`app::App`] on a [`project::Project`] and call its tools.

pub mod app;
pub mod approve;
mod behind;
pub mod builtin;
pub mod config;
pub mod dialect;
pub mod exec;
pub mod lint;
pub mod native;
pub mod observe;
pub mod project;
pub mod review;
pub mod store;
pub mod surface;
pub mod watch;

/// The first thing in the `main` of a program that embeds glee: tools are started through that program.
pub use glee_sandbox::run_if_launcher;
