//! Sessions of the handshake era: each belongs to whoever began it, and there are only so many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::guard::refuse;
use crate::surface::mcp::Principal;

/// Of all principals together, and of one.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 64;
const HEADER: &str = "mcp-session-id";

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<HashMap<String, Principal>>,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Sessions {
        Sessions {
            manager,
            owners: Mutex::default(),
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Principal>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may begin; forgets those that ended by themselves.
    async fn is_full(&self, principal: &Principal) -> bool {
        let live = self.manager.sessions.read().await;
        let mut owners = self.owners();
        owners.retain(|id, _| live.contains_key(id.as_str()));
        live.len() >= MOST || owners.values().filter(|it| *it == principal).count() >= MOST_OF_ONE
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
    match id(request.headers()) {
        Some(id) => {
            if sessions.owners().get(&id).is_none_or(|it| *it != principal) {
                return refuse(StatusCode::NOT_FOUND, "there is no such session");
            }
            let ends = request.method() == Method::DELETE;
            let response = next.run(request).await;
            if ends && response.status().is_success() {
                sessions.owners().remove(&id);
            }
            response
        }
        None => {
            if request.method() == Method::POST && sessions.is_full(&principal).await {
                return refuse(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "there are too many sessions; end some, or come back later",
                );
            }
            let response = next.run(request).await;
            if let Some(id) = id(response.headers()) {
                sessions.owners().insert(id, principal);
            }
            response
        }
    }
}

fn id(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(HEADER)?.to_str().ok()?.to_owned())
}
