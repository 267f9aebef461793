//! All integration tests of the crate, in one binary.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it stands"
)]

mod addresses;
mod agents;
mod approvals;
mod audit;
mod builtins;
mod bundles;
mod cases;
mod cli;
mod denied;
mod digest;
mod docs;
mod documents;
mod entrypoint;
mod examples;
mod functions;
mod generated;
mod http;
mod layers;
mod mcp;
mod notes;
mod properties;
mod rules;
mod secrets;
mod server;
mod starts;
mod support;
mod upstream;
mod warm_python;
mod watch;
