//! What is done to a code base: git, searching, tests, formatting, packages.

pub(super) mod find;
pub(super) mod git;
pub(super) mod project;
