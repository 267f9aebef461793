//! Ways to ask a person.

pub mod terminal;
