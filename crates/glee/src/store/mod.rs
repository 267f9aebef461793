//! Where tools are kept.

pub mod manifests;
pub mod results;
pub mod tokens;
