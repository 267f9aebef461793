//! The server: MCP over HTTP and REST, behind one guard.

mod guard;
mod lists;
mod older;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::store::tokens::Tokens;
use crate::surface::mcp::Server;
use crate::surface::principal::Principal;
use crate::surface::rest;
pub use guard::{Admission, Guard};
use sessions::Sessions;

/// Largest request, in bytes.
const MOST_BODY: usize = 4 << 20;
/// How long calls may take to end when the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How a server listens, and whom it lets in.
pub struct Settings {
    pub listen: SocketAddr,
    /// Names, besides those of this machine, that clients may call the server by.
    pub hosts: Vec<String>,
    /// Nobody has to show a token when there are none.
    pub tokens: Option<Tokens>,
}

/// A server that listens and does not yet answer.
pub struct Bound {
    listener: TcpListener,
    settings: Settings,
}

pub async fn bind(settings: Settings) -> std::io::Result<Bound> {
    Ok(Bound {
        listener: TcpListener::bind(settings.listen).await?,
        settings,
    })
}

impl Bound {
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`, then lets what runs come to an end.
    pub async fn serve(
        self,
        server: Server,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let guard = Arc::new(Guard::new(
            self.settings.hosts,
            match self.settings.tokens {
                Some(tokens) => Admission::Token(tokens),
                None => Admission::Anyone(Principal::usual("anyone")),
            },
        ));
        let manager = Arc::new(LocalSessionManager::default());
        let sessions = Arc::new(Sessions::new(manager.clone()));
        // The guard has looked at Host and Origin; a second, different look would only confuse.
        let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
        config.max_request_body_bytes = MOST_BODY;
        let closing = config.cancellation_token.clone();
        let lists = server.clone();
        let rest = rest::router(server.app()).layer(DefaultBodyLimit::max(MOST_BODY));
        let mcp = StreamableHttpService::new(move || Ok(server.connection()), manager, config);
        let router = Router::new()
            .route_service("/mcp", mcp)
            .layer(middleware::from_fn(older::spare))
            .layer(middleware::from_fn_with_state(lists, lists::fill))
            .layer(middleware::from_fn_with_state(sessions, sessions::bind))
            .merge(rest)
            .layer(middleware::from_fn_with_state(guard, guard::admit));
        // Small answers must not wait for the client's acknowledgement of earlier ones.
        let listener = self.listener.tap_io(|it| {
            let _ = it.set_nodelay(true);
        });
        let stopping = async move {
            stop.await;
            closing.cancel();
        };
        let (told, stopped) = tokio::sync::oneshot::channel();
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
            stopping.await;
            let _ = told.send(());
        });
        tokio::select! {
            done = serving => done,
            () = async {
                let _ = stopped.await;
                tokio::time::sleep(GRACE).await;
            } => Ok(()),
        }
    }
}
