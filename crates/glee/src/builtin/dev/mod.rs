//! What is done to a code base: git, searching, tests, formatting, packages.

pub(super) mod find;
pub(super) mod git;
mod person;
pub(super) mod project;
pub(super) mod repository;
