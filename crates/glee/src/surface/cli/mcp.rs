//! `glee mcp`: the project's tools over standard input and output.

use std::sync::Arc;

use super::run::stop_signal;
use super::status::Status;
use super::{Session, serving};
use crate::surface::mcp::stdio;

/// Serve the tools to one MCP client, over standard input and output.
///
/// Clients start this themselves; `glee connect` tells them how.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  glee mcp --root ~/work/project")]
pub(super) struct Args {}

pub(super) fn run(session: &Session, _: &Args) -> anyhow::Result<Status> {
    let app = Arc::new(session.served_app(None)?);
    let runtime = serving()?;
    runtime.block_on(async {
        let served = tokio::select! {
            served = stdio::serve(app.clone()) => served,
            () = stop_signal() => Ok(()),
        };
        app.stop().await;
        served
    })?;
    // A thread may still wait for input that nobody wants.
    runtime.shutdown_background();
    Ok(Status::Ok)
}
