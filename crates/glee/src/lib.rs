//! glee
