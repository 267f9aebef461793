//! How admitted calls are run.

pub mod http;
