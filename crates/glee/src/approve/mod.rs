//! Ways to ask a person.

pub mod absent;
pub mod form;
pub mod terminal;
