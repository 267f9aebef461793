//! Sessions of the handshake era: each belongs to whoever began it, and there are only so many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
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

/// rmcp ends a session of which it hears nothing for so long, whatever goes on in it: a tool may take an hour, a person
/// ten minutes for an answer, and few clients begin anew when they come back after lunch.
const LASTS: Duration = Duration::from_secs(24 * 60 * 60);
/// A session that nobody has used for so long makes room for a new one. Many clients go without ending theirs.
const LEFT: Duration = Duration::from_secs(5 * 60);

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    server: Server,
    owned: Mutex<HashMap<String, Owned>>,
}

struct Owned {
    by: Principal,
    use_of_it: Arc<UseOfIt>,
}

struct UseOfIt {
    /// Requests that are being answered, and streams that are open.
    now: AtomicUsize,
    last: Mutex<Instant>,
}

impl UseOfIt {
    fn new() -> Arc<UseOfIt> {
        Arc::new(UseOfIt {
            now: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        })
    }

    fn last(&self) -> Instant {
        *lock(&self.last)
    }

    fn is_left(&self) -> bool {
        self.now.load(Ordering::Acquire) == 0 && self.last().elapsed() >= LEFT
    }
}

/// A session is in use until this is dropped.
struct Using(Arc<UseOfIt>);

impl Using {
    fn begin(use_of_it: &Arc<UseOfIt>) -> Using {
        use_of_it.now.fetch_add(1, Ordering::AcqRel);
        Using(use_of_it.clone())
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        *lock(&self.0.last) = Instant::now();
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What keeps the sessions.
pub(super) fn manager() -> LocalSessionManager {
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(LASTS);
    manager
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>, server: Server) -> Sessions {
        Sessions {
            manager,
            server,
            owned: Mutex::default(),
        }
    }

    /// Nothing when there is no such session of this principal's.
    fn use_of(&self, id: &str, principal: &Principal) -> Option<Using> {
        let owned = lock(&self.owned);
        let session = owned.get(id).filter(|it| it.by == *principal)?;
        Some(Using::begin(&session.use_of_it))
    }

    /// Whether a session that has just begun may stay; forgets those that ended by themselves.
    async fn admits(&self, id: &str, principal: &Principal) -> bool {
        let Ok(makes_room) = self.find_room(principal).await else {
            return false;
        };
        if let Some(left) = makes_room {
            self.end(&left).await;
        }
        let session = Owned {
            by: principal.clone(),
            use_of_it: UseOfIt::new(),
        };
        lock(&self.owned).insert(id.to_owned(), session);
        true
    }

    /// Who makes room for a session of this principal's, if somebody must; an error when nobody can.
    async fn find_room(&self, principal: &Principal) -> Result<Option<String>, Full> {
        let live = self.manager.sessions.read().await;
        let mut owned = lock(&self.owned);
        owned.retain(|id, _| live.contains_key(id.as_str()));
        let is_own = |it: &Owned| it.by == *principal;
        let has_too_many = owned.values().filter(|it| is_own(it)).count() >= MOST_OF_ONE;
        if live.len() <= MOST && !has_too_many {
            return Ok(None);
        }
        let left = owned
            .iter()
            .filter(|(_, it)| (is_own(it) || !has_too_many) && it.use_of_it.is_left())
            .min_by_key(|(_, it)| it.use_of_it.last());
        let id = left.map(|(id, _)| id.clone()).ok_or(Full)?;
        owned.remove(&id);
        Ok(Some(id))
    }

    async fn end(&self, id: &str) {
        // What has ended by itself is ended.
        let _ = self.manager.close_session(&id.into()).await;
        self.server.forget_session(id);
    }
}

/// There are too many sessions, and all of them are used.
struct Full;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            let Some(using) = sessions.use_of(&id, &principal) else {
                return refuse(StatusCode::NOT_FOUND, "there is no such session");
            };
            let ends = request.method() == Method::DELETE;
            let response = next.run(request).await;
            if ends && response.status().is_success() {
                lock(&sessions.owned).remove(&id);
                sessions.server.forget_session(&id);
            }
            until_told(response, using)
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
            sessions.end(&id).await;
            refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are too many sessions; end some, or come back later",
            )
        }
    }
}

/// A stream is in use as long as it is open; what comes in one piece is told at once.
fn until_told(response: Response, using: Using) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|it| it != "text/event-stream") {
        return response;
    }
    response.map(|body| {
        let told = body.into_data_stream().map(move |it| {
            let _ = &using;
            it
        });
        Body::from_stream(told)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{App, Wiring};
    use crate::approve::absent::Absent;
    use crate::project::Project;

    fn sessions(root: &std::path::Path) -> Sessions {
        std::fs::create_dir_all(root.join(".glee/tools")).unwrap();
        let project = Project::at(root).unwrap().unwrap();
        let app = App::open(project, Wiring::with(Absent)).unwrap();
        let server = Server::new(Arc::new(app), Principal::usual("anyone"));
        Sessions::new(Arc::new(manager()), server)
    }

    /// One more; nothing when it may not stay.
    async fn begin(sessions: &Sessions, principal: &Principal) -> Option<String> {
        let (id, transport) = sessions.manager.create_session().await.unwrap();
        // Whoever serves it would hold this.
        std::mem::forget(transport);
        let is_welcome = sessions.admits(&id, principal).await;
        if !is_welcome {
            sessions.end(&id).await;
        }
        is_welcome.then(|| id.to_string())
    }

    fn leave(sessions: &Sessions, id: &str, ago: Duration) {
        let owned = lock(&sessions.owned);
        *lock(&owned[id].use_of_it.last) = Instant::now() - ago;
    }

    #[tokio::test]
    async fn who_is_left_makes_room() {
        let root = tempfile::tempdir().unwrap();
        let sessions = sessions(root.path());
        let other = Principal::usual("mcp");
        let others = begin(&sessions, &other).await.unwrap();
        leave(&sessions, &others, 2 * LEFT);
        let anyone = Principal::usual("anyone");
        let mut own = Vec::new();
        while let Some(id) = begin(&sessions, &anyone).await {
            own.push(id);
        }
        assert_eq!(own.len(), MOST_OF_ONE);
        // What is still in use, however long, is not left.
        let using = sessions.use_of(&own[0], &anyone).unwrap();
        leave(&sessions, &own[0], 3 * LEFT);
        leave(&sessions, &own[1], LEFT / 2);
        assert_eq!(begin(&sessions, &anyone).await, None);
        leave(&sessions, &own[2], LEFT);
        leave(&sessions, &own[3], 2 * LEFT);
        assert!(begin(&sessions, &anyone).await.is_some());
        let live = async |id: &str| sessions.manager.has_session(&id.into()).await.unwrap();
        assert!(!live(&own[3]).await && live(&own[2]).await && live(&own[0]).await);
        assert!(sessions.use_of(&own[3], &anyone).is_none());
        // Nobody loses one to somebody else who has too many.
        drop(using);
        assert!(begin(&sessions, &anyone).await.is_some());
        assert_eq!(begin(&sessions, &anyone).await, None);
        assert!(live(&others).await);
    }

    /// The longest that a call may take, and that nobody says a word in.
    #[test]
    fn a_session_lasts_longer_than_any_call() {
        let hour = Duration::from_secs(60 * 60);
        assert!(manager().session_config.keep_alive > Some(2 * hour));
    }
}
