//! Where tools, prompts and resources are kept.

pub mod digest;
pub mod documents;
pub mod durable;
pub mod manifests;
pub mod paths;
pub mod resources;
pub mod results;
pub mod reviews;
pub mod staged;
pub mod state;
pub mod tokens;
