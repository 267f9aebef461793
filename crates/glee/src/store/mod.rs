//! Where tools, prompts and resources are kept, and what people said about calls.

pub mod approvals;
pub mod digest;
pub mod documents;
pub mod durable;
pub mod manifests;
pub mod record;
pub mod resources;
pub mod results;
pub mod state;
pub mod tokens;
