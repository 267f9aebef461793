//! `glee mcp` and `glee serve`, as clients see them.

mod agents;
mod approval;
pub(crate) mod clients;
mod conformance;
mod http;
mod plain;
mod principals;
pub(crate) mod server;
mod shown;
mod stdio;
mod stopped;
