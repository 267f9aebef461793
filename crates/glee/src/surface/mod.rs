//! The ways in. Only surfaces know exit codes and statuses. `cli` starts the servers, `http` carries
//! `mcp` and `rest`, `function` lists what `mcp` shows; otherwise no surface knows another.

pub mod cli;
mod exchange;
mod function;
pub mod http;
pub mod mcp;
pub mod principal;
pub mod rest;
mod review;
mod turnstile;
