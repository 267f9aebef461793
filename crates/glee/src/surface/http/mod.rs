//! The server: MCP over HTTP and REST, behind one guard.

mod connection;
mod crowd;
mod door;
mod guard;
mod lists;
mod older;
mod pace;
mod plain;
mod reception;
mod resumed;
mod sessions;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config;
use crate::store::tokens::Tokens;
use crate::surface::mcp::Server;
use crate::surface::principal::Principal;
use crate::surface::rest;
use crowd::{Crowd, Patience};
use door::{Door, receive};
pub use guard::{Admission, Guard};
use reception::Reception;
use sessions::Sessions;
use socket::Socket;

/// How long calls may take to end when the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Files that a server has open at most: connections, and the pipes of the calls it runs.
const MOST_FILES: u64 = 16 << 10;

/// How a server listens, whom it lets in, and what it bears.
pub struct Settings {
    pub listen: Option<SocketAddr>,
    /// Where the socket is to be, for the user who starts the server.
    pub socket: Option<PathBuf>,
    /// Names, besides those of this machine, that clients may call the server by.
    pub hosts: Vec<String>,
    /// Nobody has to show a token when there are none.
    pub tokens: Option<Tokens>,
    pub bears: config::Server,
}

/// A server that listens and does not yet answer.
pub struct Bound {
    port: Option<TcpListener>,
    socket: Option<Socket>,
    settings: Settings,
}

pub async fn bind(settings: Settings) -> io::Result<Bound> {
    let port = match settings.listen {
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.map_err(|err| at(&address.to_string(), err))?)
        }
        None => None,
    };
    let socket = match &settings.socket {
        Some(path) => Some(Socket::bind(path).map_err(|err| at(&path.to_string_lossy(), err))?),
        None => None,
    };
    Ok(Bound {
        port,
        socket,
        settings,
    })
}

fn at(place: &str, err: io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{place}: {err}"))
}

impl Bound {
    pub fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref()?.local_addr().ok()
    }

    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(Socket::path)
    }

    /// Answers until `stop`, then lets what runs come to an end.
    pub async fn serve(self, server: Server, stop: impl Future<Output = ()>) {
        let bears = self.settings.bears;
        let guard = Guard::new(
            self.settings.hosts,
            match self.settings.tokens {
                Some(tokens) => Admission::Token(tokens),
                None => Admission::Anyone(Principal::usual("anyone")),
            },
        );
        let manager = Arc::new(sessions::manager());
        let sessions = Arc::new(Sessions::new(manager.clone(), server.clone()));
        // The guard has looked at Host and Origin; a second, different look would only confuse.
        let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
        config.max_request_body_bytes = bears.request_bytes;
        let closing = config.cancellation_token.clone();
        let ours = server.clone();
        let desk = plain::Desk::new(server.clone(), bears.request_bytes);
        let rest = rest::router(server.app()).layer(DefaultBodyLimit::max(bears.request_bytes));
        let mcp = StreamableHttpService::new(move || Ok(server.connection()), manager, config);
        let router = Router::new()
            .route_service("/mcp", mcp)
            .layer(middleware::from_fn(older::spare))
            .layer(middleware::from_fn_with_state(ours.clone(), lists::fill))
            .layer(middleware::from_fn_with_state(desk, plain::answer))
            .layer(middleware::from_fn_with_state(sessions, sessions::bind))
            .merge(rest);
        let reception = Reception::new(guard, bears.body, router);
        allow_files();
        let patience = Patience {
            head: bears.head,
            idle: bears.idle,
        };
        let crowd = Crowd::new(bears.connections, patience);
        let (stopped, stopping) = watch::channel(false);
        tokio::select! {
            () = open(self.port.as_ref(), &crowd, &reception, &stopping) => {}
            () = open(self.socket.as_ref(), &crowd, &reception, &stopping) => {}
            () = crowd.clone().watch() => {}
            () = stop => {}
        }
        closing.cancel();
        drop((self.port, stopping));
        stopped.send_replace(true);
        // Each connection has a receiver.
        let _ = timeout(GRACE, stopped.closed()).await;
        ours.forget_sessions();
    }
}

/// A door that is not there lets nobody in.
async fn open(
    door: Option<&impl Door>,
    crowd: &Arc<Crowd>,
    reception: &Arc<Reception>,
    stopping: &watch::Receiver<bool>,
) {
    match door {
        Some(door) => receive(door, crowd, reception, stopping).await,
        None => std::future::pending().await,
    }
}

/// As many files as this process may have; most systems give it fewer than it may.
fn allow_files() {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    if now.current.is_some_and(|it| it < most) {
        let more = Rlimit {
            current: Some(most),
            maximum: now.maximum,
        };
        // Then there are as many as there are; whoever comes too late waits.
        let _ = setrlimit(Resource::Nofile, more);
    }
}
