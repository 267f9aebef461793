//! Where tools, prompts and resources are kept, what people said about calls, and what is recorded.

pub mod approvals;
pub mod bundles;
pub mod digest;
pub mod documents;
pub mod durable;
pub mod journal;
pub mod kept;
pub mod manifests;
pub mod paths;
pub mod record;
pub mod resources;
pub mod results;
pub mod reviews;
pub mod staged;
pub mod state;
pub mod tokens;
pub mod usage;
