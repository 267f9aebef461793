//! `glee mcp` and `glee serve`, as clients see them.

mod agents;
mod clients;
mod conformance;
mod http;
mod server;
mod stdio;
