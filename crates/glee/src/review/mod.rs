//! What becomes of the tools that agents make: they are made under a ceiling, tried out, looked at by a
//! person, and run only as that person has seen them.

mod create;
mod diff;
mod files;
mod look;
mod trial;

pub use create::{Created, Proposal};
pub use files::{Body, Part};
pub use look::{Look, Ruling, Waiting};
