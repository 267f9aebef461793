//! Those who listen to calls.

pub mod audit;
