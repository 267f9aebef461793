//! glee-core
