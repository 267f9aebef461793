//! Foreign words stay here: each dialect turns its documents into the model and back, and knows no
//! other dialect.

pub mod condition;
pub mod document;
pub mod elicit;
pub mod function;
pub mod manifest;
pub mod native;
pub mod network;
pub mod openapi;
pub mod problem;
pub mod prompt;
mod reader;
pub mod resource;
pub mod signature;
pub mod strict;
pub mod yaml;
