//! All integration tests of the crate, in one binary.

mod cases;
mod docs;
mod generated;
mod layers;
mod support;
mod upstream;
