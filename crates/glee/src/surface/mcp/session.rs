//! Calls of clients that shook hands over HTTP. rmcp keeps their sessions; but most calls of functions and services ask
//! their client for nothing, and are over soon. They need none of a session's queues and streams, which take longer
//! than a small call, and go to the handler as rmcp would hand them on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::request::Parts;
use glee_core::model::{Exec, Tasks, ToolSpec};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::line::Notices;
use super::{OF_PROTOCOL, Server, VERSIONS, message, meta};
use crate::config::Elicitation;

/// What may take longer is rmcp's: it gives signs of life meanwhile, and whoever was cut off can come back.
const SOON: Duration = Duration::from_secs(60);
/// How often rmcp sees something of a session. It ends those that it hears nothing of for a day.
const SEEN_EVERY: Duration = Duration::from_secs(60 * 60);
/// Notes that wait to be read.
const MOST_WAITING: usize = 16;

/// By the ids that rmcp gave them.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

pub(in crate::surface) struct Session {
    /// As this client has set it up.
    server: Server,
    peer: Peer<RoleServer>,
    /// When rmcp last saw something of it.
    seen: Mutex<Instant>,
    /// A client may use an id again before it was answered.
    under_way: Mutex<HashMap<RequestId, Vec<CancellationToken>>>,
}

/// What becomes of a message.
pub(in crate::surface) enum Taken {
    Call(Box<Call>),
    /// It is rmcp's.
    Not(Box<Parts>),
}

/// A call that is to be answered.
pub(in crate::surface) struct Call {
    under_way: UnderWay,
    params: CallToolRequestParams,
    parts: Parts,
}

/// The place of a call among those that can be taken back. Whoever does not wait for it takes it back, too.
struct UnderWay {
    session: Arc<Session>,
    id: RequestId,
    taken_back: CancellationToken,
}

impl Sessions {
    /// Those that rmcp has ended are forgotten with the next one that begins; it has only so many.
    pub(super) fn begin(&self, server: &Server, context: &NotificationContext<RoleServer>) {
        let parts = context.extensions.get::<Parts>();
        let Some(id) = parts.and_then(|it| id(&it.headers)) else {
            return;
        };
        let session = Session {
            server: server.clone(),
            peer: context.peer.clone(),
            seen: Mutex::new(Instant::now()),
            under_way: Mutex::default(),
        };
        let mut all = lock(&self.0);
        all.retain(|_, it| !it.peer.is_transport_closed());
        // A client that says twice that hands were shaken keeps the calls that it can take back.
        all.entry(id.to_owned()).or_insert(Arc::new(session));
    }
}

impl Server {
    /// Whether clients of this revision of the protocol shake hands.
    pub(in crate::surface) fn shakes_hands(version: &str) -> bool {
        let stateless = ProtocolVersion::V_2026_07_28;
        let mut known = VERSIONS.iter().filter(|it| **it != stateless);
        known.any(|it| it.as_str() == version)
    }

    /// Its calls end with it.
    pub(in crate::surface) fn forget_session(&self, id: &str) {
        let forgotten = lock(&self.shared.sessions.0).remove(id);
        if let Some(session) = forgotten {
            session.take_back_all();
        }
    }

    /// For a server that ends: what its sessions hold of it would keep it for ever.
    pub(in crate::surface) fn forget_sessions(&self) {
        let forgotten = std::mem::take(&mut *lock(&self.shared.sessions.0));
        forgotten.values().for_each(|it| it.take_back_all());
    }

    pub(in crate::surface) fn session(&self, headers: &HeaderMap) -> Option<Arc<Session>> {
        let session = lock(&self.shared.sessions.0).get(id(headers)?).cloned()?;
        (!session.peer.is_transport_closed()).then_some(session)
    }
}

pub(in crate::surface) fn id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

impl Session {
    pub(in crate::surface) fn takes(self: Arc<Self>, parts: Parts, body: &[u8]) -> Taken {
        // rmcp hears of it, too: it may see to another call under the same id.
        if let Some(id) = message::taken_back(body) {
            let calls = lock(&self.under_way).remove(&id).unwrap_or_default();
            calls.iter().for_each(CancellationToken::cancel);
        }
        let call = message::call(body).filter(|(_, params)| self.is_plain(params));
        let Some((id, params)) = call.filter(|_| self.seen_lately()) else {
            *lock(&self.seen) = Instant::now();
            return Taken::Not(Box::new(parts));
        };
        Taken::Call(Box::new(Call {
            under_way: UnderWay::begin(self, id),
            params,
            parts,
        }))
    }

    fn take_back_all(&self) {
        let under_way = lock(&self.under_way);
        under_way
            .values()
            .flatten()
            .for_each(CancellationToken::cancel);
    }

    fn seen_lately(&self) -> bool {
        lock(&self.seen).elapsed() < SEEN_EVERY
    }

    /// Whether a call asks its client for nothing, and is over soon.
    fn is_plain(&self, params: &CallToolRequestParams) -> bool {
        let mut said = params.meta.iter().flat_map(|it| it.keys());
        let is_stateless = said.any(|it| it.starts_with(OF_PROTOCOL));
        // What a person is to be asked goes through the session.
        let may_ask = self.server.shared.app.elicitation() == Elicitation::Allow;
        let is_first = params.input_responses.is_none() && params.request_state.is_none();
        if is_stateless || may_ask || !is_first {
            return false;
        }
        let inner = || params.arguments.as_ref()?.get("name")?.as_str();
        let tool = match &*params.name {
            meta::CALL => inner().unwrap_or_default(),
            meta::CREATE => return false,
            other if meta::is_one(other) => return true,
            other => other,
        };
        let shown = self.server.shown();
        shown.find(tool).is_some_and(|it| is_quick(&it.spec))
    }
}

fn is_quick(spec: &ToolSpec) -> bool {
    matches!(spec.exec, Exec::Native(_) | Exec::Http(_))
        && spec.elicit.is_empty()
        && spec.tasks == Tasks::Never
        && spec.limits.timeout <= SOON
}

impl Call {
    /// The answer, and the notes that come before it. What was taken back is not answered.
    pub(in crate::surface) fn answer(
        self,
    ) -> (
        impl Future<Output = Option<ServerJsonRpcMessage>> + Send,
        mpsc::Receiver<ServerNotification>,
    ) {
        let (notices, noticed) = mpsc::channel(MOST_WAITING);
        let answer = async move {
            let (under_way, params) = (self.under_way, self.params);
            let UnderWay { session, id, .. } = &under_way;
            let mut context = RequestContext::new(id.clone(), session.peer.clone());
            context.ct = under_way.taken_back.clone();
            context.extensions.insert(self.parts);
            context.extensions.insert(Notices(notices));
            let answer = session.server.answer(params, context).await;
            (!under_way.taken_back.is_cancelled()).then_some(answer)
        };
        (answer, noticed)
    }
}

impl UnderWay {
    fn begin(session: Arc<Session>, id: RequestId) -> UnderWay {
        let taken_back = CancellationToken::new();
        let mut under_way = lock(&session.under_way);
        let calls = under_way.entry(id.clone()).or_default();
        calls.push(taken_back.clone());
        drop(under_way);
        UnderWay {
            session,
            id,
            taken_back,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.taken_back.cancel();
        let mut under_way = lock(&self.session.under_way);
        if let Some(calls) = under_way.get_mut(&self.id) {
            calls.retain(|it| *it != self.taken_back);
            if calls.is_empty() {
                under_way.remove(&self.id);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
