//! Calls of tools that come through a pipe. They go to the handler as rmcp would hand them on, and their answers go out
//! beside it: the way through rmcp's own loop, by three tasks and two queues, takes longer than a small call. All else
//! is rmcp's: the handshake, lists, answers to questions, and whatever does not read as a call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, Service};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Server;

/// Where answers go, each whole.
pub(super) trait Out: Send + Sync {
    /// One more answer is to come.
    fn expect(&self);

    /// Here it is.
    fn say(&self, answer: &ServerJsonRpcMessage);

    /// It will not come.
    fn expect_no_more(&self);

    /// Ready when the client has read enough of what it was told before.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<()>;
}

pub(super) struct Direct {
    server: Server,
    out: Arc<dyn Out>,
    /// The client, when hands have been shaken; until then everything is rmcp's.
    peer: OnceLock<Peer<RoleServer>>,
    under_way: Mutex<HashMap<RequestId, Arc<Ticket>>>,
    is_done: Notify,
}

/// A request that is answered once, by whoever can: when its own task hangs, somebody else does.
pub(super) struct Ticket {
    id: RequestId,
    is_answered: AtomicBool,
    taken_back: CancellationToken,
    out: Arc<dyn Out>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    params: CallToolRequestParams,
}

#[derive(Deserialize)]
struct TakenBack<'a> {
    method: &'a str,
    params: CancelledNotificationParam,
}

impl Direct {
    pub(super) fn new(server: Server, out: Arc<dyn Out>) -> Direct {
        Direct {
            server,
            out,
            peer: OnceLock::new(),
            under_way: Mutex::default(),
            is_done: Notify::new(),
        }
    }

    /// From here on calls need not go through rmcp.
    pub(super) fn open(&self, peer: Peer<RoleServer>) {
        // Hands are shaken once.
        let _ = self.peer.set(peer);
    }

    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        self.out.poll_room(context)
    }

    /// Whether a line that the client sent is seen to here.
    pub(super) fn takes(self: &Arc<Self>, line: &[u8]) -> bool {
        let Some(peer) = self.peer.get() else {
            return false;
        };
        if memmem::find(line, b"tools/call").is_some()
            && let Ok(asked) = serde_json::from_slice::<Asked>(line)
            && (asked.jsonrpc, asked.method) == ("2.0", "tools/call")
        {
            self.begin(asked.id, asked.params, peer.clone());
            return true;
        }
        memmem::find(line, b"notifications/cancelled").is_some() && self.takes_back(line)
    }

    fn begin(
        self: &Arc<Self>,
        id: RequestId,
        mut params: CallToolRequestParams,
        peer: Peer<RoleServer>,
    ) {
        let ticket = Arc::new(Ticket {
            id: id.clone(),
            is_answered: AtomicBool::new(false),
            taken_back: CancellationToken::new(),
            out: self.out.clone(),
        });
        let mut context = RequestContext::new(id.clone(), peer);
        context.ct = ticket.taken_back.clone();
        context.meta = params.meta.take().unwrap_or_default();
        context.extensions.insert(ticket.clone());
        self.out.expect();
        self.lock().insert(id, ticket.clone());
        let direct = self.clone();
        tokio::spawn(Box::pin(async move {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let id = ticket.id.clone();
            let answer = match direct.server.handle_request(request, context).await {
                Ok(result) => ServerJsonRpcMessage::response(result, id),
                Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
            };
            ticket.answer(&answer);
            direct.end(&ticket);
        }));
    }

    fn takes_back(&self, line: &[u8]) -> bool {
        let Ok(it) = serde_json::from_slice::<TakenBack>(line) else {
            return false;
        };
        let id = it
            .params
            .request_id
            .filter(|_| it.method == "notifications/cancelled");
        let ticket = id.and_then(|it| self.lock().remove(&it));
        ticket.is_some_and(|it| {
            it.take_back();
            self.is_done.notify_one();
            true
        })
    }

    /// Another request may have come with the same id.
    fn end(&self, ticket: &Arc<Ticket>) {
        let mut under_way = self.lock();
        if under_way
            .get(&ticket.id)
            .is_some_and(|it| Arc::ptr_eq(it, ticket))
        {
            under_way.remove(&ticket.id);
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
        let _ = tokio::time::timeout(patience, done).await;
        self.lock().drain().for_each(|(_, it)| it.take_back());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Ticket>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(super) fn answer(&self, answer: &ServerJsonRpcMessage) {
        if !self.is_answered.swap(true, Ordering::AcqRel) {
            self.out.say(answer);
        }
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
    use std::sync::atomic::AtomicUsize;

    use rmcp::model::ServerResult;

    use super::*;

    /// Counts what it is told, and has room or not.
    #[derive(Default)]
    pub(in super::super) struct Counted {
        pub(in super::super) is_full: AtomicBool,
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

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<()> {
            match self.is_full.load(Ordering::Relaxed) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
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
