//! The way out of a server that speaks through a pipe. It is given answers whole, one at a time. While
//! other calls are under way their answers are gathered and go out together: to write one takes the
//! system, and the client that is woken by it, longer than to make it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use rmcp::model::ServerJsonRpcMessage;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use super::Server;
use super::direct::{Listener, Out};
use crate::behind::behind_the_others;

/// No answer is begun while so many bytes wait for a client that does not read them.
const MOST_GATHERED: usize = 64 * 1024;
/// No call is made while so many do, and a client that leaves four times as much is gone. Much more than that: a client
/// may well send a thousand calls before it reads.
const MOST_UNREAD: usize = 16 << 20;

pub(super) struct Outlet<W> {
    pipe: Arc<Pipe<W>>,
}

/// Writes what the outlet gathers.
pub(super) struct Drain<W> {
    pipe: Arc<Pipe<W>>,
}

struct Pipe<W> {
    server: Server,
    /// Answers that are to come.
    expected: AtomicUsize,
    /// Taken for moments only. Whoever has the other lock may take it, and not the other way round.
    gathered: Mutex<Gathered>,
    /// Held while the system writes: who has an answer meanwhile leaves it, and waits for nobody.
    writing: Mutex<Writing<W>>,
    /// There is something to write, or nothing more will come.
    news: Notify,
}

struct Gathered {
    answers: Answers,
    /// Of these and those that are being written, in bytes.
    unread: usize,
    /// How much was said to the client since it had read all.
    said: usize,
    is_over: bool,
    failed: Option<io::ErrorKind>,
    /// Who would write more.
    waits: Option<Waker>,
}

struct Writing<W> {
    out: W,
    answers: Answers,
    /// Whether the drain waits for the client. Only one can: whoever else tried would not be told, and the drain
    /// would not be told any more.
    is_draining: bool,
}

/// What is to be written, in its order: the pieces, and then the last one, which grows.
#[derive(Default)]
struct Answers {
    pieces: VecDeque<Bytes>,
    last: BytesMut,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    pub(super) fn new(out: W, server: Server) -> (Outlet<W>, Drain<W>) {
        let pipe = Arc::new(Pipe {
            server,
            expected: AtomicUsize::new(0),
            gathered: Mutex::new(Gathered {
                answers: Answers::default(),
                unread: 0,
                said: 0,
                is_over: false,
                failed: None,
                waits: None,
            }),
            writing: Mutex::new(Writing {
                out,
                answers: Answers::default(),
                is_draining: false,
            }),
            news: Notify::new(),
        });
        let drain = Drain { pipe: pipe.clone() };
        (Outlet { pipe }, drain)
    }

    /// For answers that do not come from rmcp.
    pub(super) fn out(&self) -> Arc<dyn Out>
    where
        W: Send + 'static,
    {
        self.pipe.clone()
    }
}

impl<W: AsyncWrite + Send + Unpin> Out for Pipe<W> {
    fn expect(&self) {
        self.expected.fetch_add(1, Ordering::AcqRel);
    }

    fn say(&self, answer: &ServerJsonRpcMessage) {
        if let Ok(mut line) = serde_json::to_vec(answer) {
            line.push(b'\n');
            lock(&self.gathered).say(&line);
        }
        self.expect_no_more();
    }

    fn expect_no_more(&self) {
        self.expected.fetch_sub(1, Ordering::AcqRel);
        // Whoever reads sees that nobody hears it.
        let _ = self.go_out();
    }

    fn listener(&self) -> Listener {
        let gathered = lock(&self.gathered);
        // One answer of rmcp's may be larger than that, to a client that does read.
        match gathered.unread.min(gathered.said) {
            _ if gathered.failed.is_some() => Listener::Gone,
            unread if unread >= 4 * MOST_UNREAD => Listener::Gone,
            unread if unread >= MOST_UNREAD => Listener::Behind,
            _ => Listener::There,
        }
    }
}

impl<W> Clone for Drain<W> {
    fn clone(&self) -> Drain<W> {
        Drain {
            pipe: self.pipe.clone(),
        }
    }
}

impl<W: AsyncWrite + Unpin> Drain<W> {
    /// Nothing more will come.
    pub(super) fn end(&self) {
        lock(&self.pipe.gathered).is_over = true;
        self.pipe.news.notify_one();
    }

    /// Until nothing more will come and all is written, or nobody reads any more.
    pub(super) async fn run(self) -> io::Result<()> {
        loop {
            self.pipe.news.notified().await;
            // Whoever else is about to answer does so first.
            behind_the_others().await;
            poll_fn(|context| {
                let mut writing = lock(&self.pipe.writing);
                let written = writing.poll_out(&self.pipe.gathered, context);
                writing.is_draining = written.is_pending();
                written
            })
            .await?;
            let gathered = lock(&self.pipe.gathered);
            if gathered.is_over && gathered.unread == 0 {
                return Ok(());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lists of tools that belong into some answers, and where. Looked for before anything is locked: they may have to be
/// read from disk.
fn lists(answers: &[u8], server: &Server) -> Vec<(Range<usize>, Bytes)> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some((place, list)) = server.list_in(&answers[from..]) {
        found.push((from + place.start..from + place.end, list));
        from += place.end;
    }
    found
}

impl Gathered {
    fn say(&mut self, line: &[u8]) {
        // Who is gone is told nothing: nobody would ever take it away.
        if self.failed.is_none() {
            self.said += line.len();
            self.add(line);
        }
    }

    /// Also of two answers that come at once, each has its list.
    fn gather(&mut self, answers: &[u8], lists: Vec<(Range<usize>, Bytes)>) {
        let mut from = 0;
        for (place, list) in lists {
            self.add(&answers[from..place.start]);
            self.unread += list.len();
            let before = self.answers.last.split().freeze();
            self.answers.pieces.extend([before, list]);
            from = place.end;
        }
        self.add(&answers[from..]);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.unread += bytes.len();
        self.answers.last.extend_from_slice(bytes);
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        self.failed = Some(kind);
        self.unread = 0;
        self.answers = Answers::default();
        self.go_on();
    }

    /// Who would write more may.
    fn go_on(&mut self) {
        if let Some(waits) = self.waits.take() {
            waits.wake();
        }
    }
}

impl Answers {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.last.is_empty()
    }

    fn next(&mut self) -> &mut dyn Buf {
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        match self.pieces.front_mut() {
            Some(piece) => piece,
            None => &mut self.last,
        }
    }
}

impl<W: AsyncWrite + Unpin> Writing<W> {
    fn poll_out(
        &mut self,
        gathered: &Mutex<Gathered>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = ready!(self.poll_all(gathered, context));
        if let Err(err) = &written {
            self.answers = Answers::default();
            lock(gathered).fail(err.kind());
        }
        Poll::Ready(written)
    }

    fn poll_all(
        &mut self,
        gathered: &Mutex<Gathered>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        lock(gathered).check()?;
        loop {
            let written = ready!(self.poll_some(context))?;
            let mut gathered = lock(gathered);
            gathered.unread -= written;
            // Also while others go on adding to it.
            if gathered.unread < MOST_GATHERED {
                gathered.go_on();
            }
            if self.answers.is_empty() {
                if gathered.answers.is_empty() {
                    gathered.said = 0;
                    break;
                }
                mem::swap(&mut self.answers, &mut gathered.answers);
            }
        }
        Pin::new(&mut self.out).poll_flush(context)
    }

    /// As much as the client takes at once.
    fn poll_some(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let next = self.answers.next();
        if !next.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        match ready!(Pin::new(&mut self.out).poll_write(context, next.chunk()))? {
            0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => {
                next.advance(written);
                Poll::Ready(Ok(written))
            }
        }
    }
}

impl<W: AsyncWrite + Unpin> Pipe<W> {
    /// At once, unless other answers are about to come or somebody writes already.
    fn go_out(&self) -> io::Result<()> {
        let is_last = self.expected.load(Ordering::Acquire) == 0;
        if is_last
            && let Ok(mut writing) = self.writing.try_lock()
            && !writing.is_draining
        {
            // What does not go out at once is left to the drain, which can wait for the client.
            let mut unheard = Context::from_waker(Waker::noop());
            if let Poll::Ready(written) = writing.poll_out(&self.gathered, &mut unheard) {
                // The drain may wait for just that.
                if lock(&self.gathered).is_over {
                    self.news.notify_one();
                }
                return written;
            }
        }
        self.news.notify_one();
        Ok(())
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Outlet<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        answer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = lock(&self.pipe.gathered);
        gathered.check()?;
        if gathered.unread >= MOST_GATHERED {
            gathered.waits = Some(context.waker().clone());
            drop(gathered);
            // Nobody may have asked for it to be written yet.
            self.pipe.news.notify_one();
            return Poll::Pending;
        }
        drop(gathered);
        let lists = lists(answer, &self.pipe.server);
        lock(&self.pipe.gathered).gather(answer, lists);
        Poll::Ready(Ok(answer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.pipe.go_out())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::app::{App, Wiring};
    use crate::approve::absent::Absent;
    use crate::project::Project;
    use crate::surface::principal::Principal;

    fn server(root: &std::path::Path) -> Server {
        std::fs::create_dir_all(root.join(".glee/tools")).unwrap();
        let project = Project::at(root).unwrap().unwrap();
        let app = App::open(project, Wiring::with(Absent)).unwrap();
        Server::new(Arc::new(app), Principal::usual("mcp"))
    }

    /// What comes out of an outlet that leads to somebody who reads when all is written, or when it waits.
    async fn told(server: Server, answers: &[&[u8]]) -> Vec<u8> {
        let (out, mut reader) = duplex(1024);
        let (mut outlet, drain) = Outlet::new(out, server);
        let drained = tokio::spawn(drain.clone().run());
        let read = tokio::spawn(async move {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).await.map(|_| all)
        });
        for answer in answers {
            outlet.write_all(answer).await.unwrap();
        }
        drain.end();
        drained.await.unwrap().unwrap();
        drop((outlet, drain));
        read.await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn each_of_two_answers_at_once_has_its_list() {
        let root = tempfile::tempdir().unwrap();
        let server = server(root.path());
        let stand_in = serde_json::to_string(&server.shared.stand_in.tool).unwrap();
        let list = String::from_utf8(server.shown().listed.to_vec()).unwrap();
        let sent = format!("[{stand_in}]\n[{stand_in}]\n");
        let told = told(server, &[sent.as_bytes()]).await;
        let told = String::from_utf8(told).unwrap();
        assert_eq!(told, format!("[{list}]\n[{list}]\n"));
    }

    #[tokio::test]
    async fn what_waits_is_written_also_when_nobody_asks_for_it() {
        let root = tempfile::tempdir().unwrap();
        let answer = vec![b'x'; MOST_GATHERED];
        let answers: [&[u8]; 3] = [&answer; 3];
        let told = told(server(root.path()), &answers);
        let told = tokio::time::timeout(std::time::Duration::from_secs(30), told).await;
        assert_eq!(told.unwrap().len(), 3 * MOST_GATHERED);
    }

    #[tokio::test]
    async fn who_does_not_read_is_behind_and_then_gone_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (out, reader) = duplex(1024);
        let (outlet, drain) = Outlet::new(out, server(root.path()));
        let pipe = outlet.pipe.clone();
        let unread = vec![b'x'; MOST_UNREAD];
        let mut seen = Vec::new();
        for _ in 0..4 {
            lock(&pipe.gathered).add(&unread);
        }
        for _ in 0..4 {
            seen.push(pipe.listener());
            lock(&pipe.gathered).said += MOST_UNREAD;
        }
        let behind = [Listener::Behind; 3];
        assert_eq!(seen, [&[Listener::There], &behind[..]].concat());
        assert_eq!(pipe.listener(), Listener::Gone);
        drop(reader);
        drain.end();
        assert!(drain.run().await.is_err());
        // Another answer is to come, so that this one would wait for it.
        pipe.expect();
        pipe.expect();
        pipe.say(&ServerJsonRpcMessage::response(
            rmcp::model::ServerResult::empty(()),
            rmcp::model::RequestId::Number(1),
        ));
        assert_eq!(pipe.listener(), Listener::Gone);
        assert_eq!(lock(&pipe.gathered).unread, 0);
    }
}
