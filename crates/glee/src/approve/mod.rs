//! Ways to ask whether a call may be made: a person, or a service.

pub mod absent;
pub mod form;
pub mod ledger;
pub mod principles;
pub mod terminal;
