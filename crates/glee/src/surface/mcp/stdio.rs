//! One client, over standard input and output.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use super::direct::Direct;
use super::inlet::Inlet;
use super::opening::Opening;
use super::outlet::Outlet;
use crate::app::App;
use crate::surface::principal::Principal;

/// How long a client may take to read the last answers.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves the project's tools until the client goes.
pub async fn serve(app: Arc<App>) -> anyhow::Result<()> {
    let server = Server::new(app.clone(), Principal::usual("mcp"));
    let tell = server.clone();
    let _watching = app.watch(move |change| tell.announce(change))?;
    let (from, to) = stdio_pipes();
    let (to, drain) = Outlet::new(to, server.clone());
    let direct = Arc::new(Direct::new(server.clone(), to.out()));
    let drained = tokio::spawn(drain.clone().run());
    let from = Inlet::new(from, direct.clone());
    let served = converse(server, (from, to), &direct).await;
    drain.end();
    // A client that is gone, or does not read what it asked for, is not waited for.
    let _ = tokio::time::timeout(LAST_WORDS, drained).await;
    served
}

async fn converse<R, W>(
    server: Server,
    (from, to): (Inlet<R>, Outlet<W>),
    direct: &Direct,
) -> anyhow::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = Opening::new(AsyncRwTransport::new_server(from, to));
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // A client that goes before it has said hello leaves nothing undone.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    direct.open(running.peer().clone());
    running.waiting().await?;
    direct.finish(LAST_WORDS).await;
    Ok(())
}
