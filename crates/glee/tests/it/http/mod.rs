//! The http executor against a real server.

mod auth;
mod deadline;
mod hosts;
mod redirect;
mod request;
mod response;
mod retry;
mod secrets;
mod tool;
