//! The model of a tool, the gate every call passes, and the straight line of one call.
//!
//! This crate does no I/O and knows no async runtime: disks, clocks, networks, processes and people
//! are reached through the traits in [`port`], which the `glee` crate implements.
//! Start reading at [`runtime::Runtime::invoke`].

pub mod admit;
pub mod authority;
pub mod bundle;
pub mod catalog;
pub mod ceiling;
pub mod consent;
pub mod content;
pub mod elicit;
pub mod event;
pub mod example;
pub mod glob;
pub mod host;
pub mod json;
pub mod json_path;
pub mod model;
pub mod name;
pub mod outcome;
pub mod permission;
pub mod policy;
pub mod port;
pub mod prompt;
pub mod protect;
pub mod redact;
pub mod resource;
pub mod rule;
pub mod runtime;
pub mod schema;
pub mod search;
pub mod secret;
pub mod shape;
pub mod shell;
pub mod slug;
pub mod template;
pub mod turn;
pub mod url_template;
