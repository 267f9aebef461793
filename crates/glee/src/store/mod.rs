//! Where tools are kept.

pub mod manifests;
