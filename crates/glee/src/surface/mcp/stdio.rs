//! One client, over standard input and output.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;

use super::{Outlet, Principal, Server};
use crate::app::App;

/// Serves the project's tools until the client goes.
pub async fn serve(app: Arc<App>) -> anyhow::Result<()> {
    let server = Server::new(app.clone(), Principal::usual("mcp"));
    let tell = server.clone();
    let _watching = app.watch(move |change| tell.announce(change))?;
    let (from, to) = stdio_pipes();
    let to = Outlet::new(to, server.clone());
    let running = match server.serve((from, to)).await {
        Ok(running) => running,
        // A client that goes before it has said hello leaves nothing undone.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    running.waiting().await?;
    Ok(())
}
