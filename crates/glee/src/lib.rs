//! glee

pub mod exec;
