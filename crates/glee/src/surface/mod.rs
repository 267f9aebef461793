//! The ways in. Only surfaces know exit codes and statuses, and no surface knows another.

pub mod cli;
pub mod http;
pub mod mcp;
