//! All integration tests of the crate, in one binary.

mod cases;
mod cli;
mod examples;
mod generated;
mod layers;
mod properties;
mod support;
mod upstream;
