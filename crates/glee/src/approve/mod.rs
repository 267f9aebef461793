//! Ways to ask a person.

pub mod form;
pub mod terminal;
