//! `glee mcp`: the project's tools over standard input and output.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::Session;
use super::status::Status;
use crate::surface::mcp::{Outlet, Server};
use crate::surface::principal::Principal;

/// Serve the tools to one MCP client, over standard input and output.
///
/// Clients start this themselves; `glee connect` tells them how.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  glee mcp --root ~/work/project")]
pub(super) struct Args {}

pub(super) fn run(session: &Session, _: &Args) -> anyhow::Result<Status> {
    let app = Arc::new(session.served_app()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::new(app.clone(), Principal::usual("mcp"));
        let tell = server.clone();
        let _watching = app.watch(move |change| tell.announce(change))?;
        let (from, to) = stdio_pipes();
        let to = Outlet::new(to, server.clone());
        let running = match server.serve((from, to)).await {
            Ok(running) => running,
            // A client that goes before it has said hello leaves nothing undone.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(err) => return Err(anyhow::Error::from(err)),
        };
        running.waiting().await?;
        anyhow::Ok(())
    })?;
    // What still runs is held by the sandbox and ends with this process.
    runtime.shutdown_background();
    Ok(Status::Ok)
}
