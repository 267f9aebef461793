//! Sessions of the handshake era: each belongs to whoever began it, and there are only so many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::guard::refuse;
use crate::store::tokens::Scope;
use crate::surface::mcp::Server;
use crate::surface::mcp::session::id;
use crate::surface::principal::Principal;

/// Of all principals together, and of one.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 64;

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    server: Server,
    owners: Mutex<HashMap<String, Principal>>,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>, server: Server) -> Sessions {
        Sessions {
            manager,
            server,
            owners: Mutex::default(),
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Principal>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session that has just begun may stay; forgets those that ended by themselves.
    async fn admits(&self, id: &str, principal: &Principal) -> bool {
        let live = self.manager.sessions.read().await;
        let mut owners = self.owners();
        owners.retain(|id, _| live.contains_key(id.as_str()));
        let of_one = owners.values().filter(|it| *it == principal).count();
        let is_welcome = live.len() <= MOST && of_one < MOST_OF_ONE;
        if is_welcome {
            owners.insert(id.to_owned(), principal.clone());
        }
        is_welcome
    }
}

/// Binds a session to the principal that began it. To others it does not exist.
pub(super) async fn bind(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(principal) = request.extensions().get::<Principal>().cloned() else {
        return refuse(StatusCode::UNAUTHORIZED, "nobody is there");
    };
    // A token that is good for something else, such as answering for a person, is no agent's.
    if !principal.may(Scope::ReadRegistry) && !principal.may(Scope::InvokeTool) {
        return refuse(
            StatusCode::FORBIDDEN,
            "this token has neither the scope read_registry nor invoke_tool",
        );
    }
    match id(request.headers()).map(str::to_owned) {
        Some(id) => {
            if sessions.owners().get(&id).is_none_or(|it| *it != principal) {
                return refuse(StatusCode::NOT_FOUND, "there is no such session");
            }
            let ends = request.method() == Method::DELETE;
            let response = next.run(request).await;
            if ends && response.status().is_success() {
                sessions.owners().remove(&id);
                sessions.server.forget_session(&id);
            }
            response
        }
        None => {
            let response = next.run(request).await;
            let Some(id) = id(response.headers()).map(str::to_owned) else {
                return response;
            };
            if sessions.admits(&id, &principal).await {
                return response;
            }
            // It cannot be told beforehand whether a request begins a session.
            let _ = sessions.manager.close_session(&id.into()).await;
            refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many sessions; end some, or come back later",
            )
        }
    }
}
