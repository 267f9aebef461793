//! Calls of tools that come through a pipe. They go to the handler as rmcp would hand them on, and their answers go out
//! beside it: the way through rmcp's own loop, by three tasks and two queues, takes longer than a small call. All else
//! is rmcp's: the handshake, lists, answers to questions, and whatever does not read as a call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, RequestId, ServerJsonRpcMessage};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{MOST_CALLS, Server, broken, message, protocol};

/// Requests that are seen to at once.
const MOST_TASKS: usize = MOST_CALLS.0;

/// Where answers go, each whole.
pub(super) trait Out: Send + Sync {
    /// One more answer is to come.
    fn expect(&self);

    /// Here it is.
    fn say(&self, answer: &ServerJsonRpcMessage);

    /// It will not come.
    fn expect_no_more(&self);

    fn listener(&self) -> Listener;
}

/// Whoever answers go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    There,
    /// Has yet to read so much that no more is done for it.
    Behind,
    /// Reads no more, or never did.
    Gone,
}

pub(super) struct Direct {
    server: Server,
    out: Arc<dyn Out>,
    /// The client, when hands have been shaken; until then everything is rmcp's.
    peer: OnceLock<Peer<RoleServer>>,
    /// A client may use an id again before it was answered.
    under_way: Mutex<HashMap<RequestId, Vec<Arc<Ticket>>>>,
    is_done: Notify,
    /// How many tasks there are, and who would have more of them.
    tasks: AtomicUsize,
    reader: AtomicWaker,
    /// When nothing more was to come.
    over_since: OnceLock<Instant>,
}

/// A request that is answered once, by whoever can: when its own task hangs, somebody else does.
pub(super) struct Ticket {
    id: RequestId,
    is_answered: AtomicBool,
    taken_back: CancellationToken,
    out: Arc<dyn Out>,
}

impl Direct {
    pub(super) fn new(server: Server, out: Arc<dyn Out>) -> Direct {
        Direct {
            server,
            out,
            peer: OnceLock::new(),
            under_way: Mutex::default(),
            is_done: Notify::new(),
            tasks: AtomicUsize::new(0),
            reader: AtomicWaker::new(),
            over_since: OnceLock::new(),
        }
    }

    /// From here on calls need not go through rmcp.
    pub(super) fn open(&self, peer: Peer<RoleServer>) {
        // Hands are shaken once.
        let _ = self.peer.set(peer);
    }

    pub(super) fn listener(&self) -> Listener {
        self.out.listener()
    }

    /// Ready when another request may be read. More of them than may run at once are refused, which does not take long.
    pub(super) fn poll_turn(&self, context: &mut Context<'_>) -> Poll<()> {
        let is_free = || self.tasks.load(Ordering::SeqCst) < MOST_TASKS;
        if is_free() {
            return Poll::Ready(());
        }
        self.reader.register(context.waker());
        // One may have ended meanwhile.
        match is_free() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Nothing more will come.
    pub(super) fn end_of_input(&self) {
        self.over_since.get_or_init(Instant::now);
    }

    /// Whether a line that the client sent is seen to here.
    pub(super) fn takes(self: &Arc<Self>, line: &[u8]) -> bool {
        let Some(peer) = self.peer.get() else {
            return false;
        };
        if let Some((id, params)) = message::call(line) {
            self.begin(id, params, peer.clone());
            return true;
        }
        // rmcp hears of it, too: the first calls may have come before it was known that hands were shaken.
        if let Some(id) = message::taken_back(line) {
            self.take_back(&id);
        }
        false
    }

    fn begin(
        self: &Arc<Self>,
        id: RequestId,
        params: CallToolRequestParams,
        peer: Peer<RoleServer>,
    ) {
        let mut context = RequestContext::new(id.clone(), peer);
        let ticket = Arc::new(Ticket {
            id: id.clone(),
            is_answered: AtomicBool::new(false),
            taken_back: context.ct.clone(),
            out: self.out.clone(),
        });
        context.extensions.insert(ticket.clone());
        self.out.expect();
        self.lock().entry(id).or_default().push(ticket.clone());
        self.tasks.fetch_add(1, Ordering::SeqCst);
        let task = Task {
            direct: self.clone(),
            ticket,
        };
        tokio::spawn(Box::pin(async move {
            let answer = task.direct.server.answer(params, context).await;
            task.ticket.answer(&answer);
        }));
    }

    fn take_back(&self, id: &RequestId) {
        let tickets = self.lock().remove(id).unwrap_or_default();
        tickets.iter().for_each(|it| it.take_back());
        self.is_done.notify_one();
    }

    fn end(&self, ticket: &Arc<Ticket>) {
        let mut under_way = self.lock();
        if let Some(tickets) = under_way.get_mut(&ticket.id) {
            tickets.retain(|it| !Arc::ptr_eq(it, ticket));
            if tickets.is_empty() {
                under_way.remove(&ticket.id);
            }
        }
        if under_way.is_empty() {
            self.is_done.notify_one();
        }
    }

    /// Waits for what is under way when nothing more will come, and takes back what takes longer.
    pub(super) async fn finish(&self, patience: Duration) {
        let done = async {
            while !self.lock().is_empty() {
                self.is_done.notified().await;
            }
        };
        // Whoever else was waited for meanwhile has taken of it.
        let waited = self.over_since.get().map(Instant::elapsed);
        let left = patience.saturating_sub(waited.unwrap_or_default());
        let _ = tokio::time::timeout(left, done).await;
        let under_way: Vec<_> = self.lock().drain().collect();
        under_way
            .iter()
            .flat_map(|it| &it.1)
            .for_each(|it| it.take_back());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Vec<Arc<Ticket>>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a request. Should it break, the request is answered all the same.
struct Task {
    direct: Arc<Direct>,
    ticket: Arc<Ticket>,
}

impl Drop for Task {
    fn drop(&mut self) {
        let id = Some(self.ticket.id.clone());
        let answer = || ServerJsonRpcMessage::error(protocol(broken()), id);
        self.ticket.answer_with(answer);
        self.direct.end(&self.ticket);
        if self.direct.tasks.fetch_sub(1, Ordering::SeqCst) == MOST_TASKS {
            self.direct.reader.wake();
        }
    }
}

impl Ticket {
    pub(super) fn answer(&self, answer: &ServerJsonRpcMessage) {
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            self.out.say(answer);
        }
    }

    /// The same, made only when it is needed.
    fn answer_with(&self, answer: impl FnOnce() -> ServerJsonRpcMessage) {
        if !self.is_answered.load(Ordering::Acquire) {
            self.answer(&answer());
        }
    }

    /// Whether no more is to be done for its client before that has read what it was told.
    pub(super) fn is_behind(&self) -> bool {
        self.out.listener() != Listener::There
    }

    pub(super) fn id(&self) -> &RequestId {
        &self.id
    }

    /// What was taken back is not answered.
    fn take_back(&self) {
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            self.out.expect_no_more();
        }
        self.taken_back.cancel();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rmcp::model::ServerResult;

    use super::*;

    /// Counts what it is told, until it is gone.
    #[derive(Default)]
    pub(in super::super) struct Counted {
        pub(in super::super) is_gone: AtomicBool,
        said: AtomicUsize,
        expected: AtomicUsize,
    }

    impl Out for Counted {
        fn expect(&self) {
            self.expected.fetch_add(1, Ordering::Relaxed);
        }

        fn say(&self, _: &ServerJsonRpcMessage) {
            self.said.fetch_add(1, Ordering::Relaxed);
            self.expect_no_more();
        }

        fn expect_no_more(&self) {
            self.expected.fetch_sub(1, Ordering::Relaxed);
        }

        fn listener(&self) -> Listener {
            match self.is_gone.load(Ordering::Relaxed) {
                true => Listener::Gone,
                false => Listener::There,
            }
        }
    }

    /// As if so many were under way, until this is dropped.
    pub(in super::super) fn crowd(direct: &Arc<Direct>) -> impl Drop + use<> {
        direct.out.expect();
        direct.tasks.store(MOST_TASKS, Ordering::SeqCst);
        let ticket = Ticket {
            id: RequestId::Number(1),
            is_answered: AtomicBool::new(false),
            taken_back: CancellationToken::new(),
            out: direct.out.clone(),
        };
        Task {
            direct: direct.clone(),
            ticket: Arc::new(ticket),
        }
    }

    fn ticket(out: &Arc<Counted>) -> Ticket {
        out.expect();
        Ticket {
            id: RequestId::Number(1),
            is_answered: AtomicBool::new(false),
            taken_back: CancellationToken::new(),
            out: out.clone(),
        }
    }

    fn answer() -> ServerJsonRpcMessage {
        ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(1))
    }

    fn count(it: &AtomicUsize) -> usize {
        it.load(Ordering::Relaxed)
    }

    #[test]
    fn a_request_is_answered_once_and_not_when_it_was_taken_back() {
        let out = Arc::new(Counted::default());
        let answered = ticket(&out);
        answered.answer(&answer());
        answered.answer(&answer());
        answered.take_back();
        assert_eq!((count(&out.said), count(&out.expected)), (1, 0));
        let taken_back = ticket(&out);
        taken_back.take_back();
        taken_back.answer(&answer());
        assert!(taken_back.taken_back.is_cancelled());
        assert_eq!((count(&out.said), count(&out.expected)), (1, 0));
    }
}
