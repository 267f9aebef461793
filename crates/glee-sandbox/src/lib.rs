//! glee-sandbox
