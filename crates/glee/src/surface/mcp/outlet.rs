//! The way out of a server that speaks through a pipe. It is given answers whole, one at a time. While
//! other calls are under way their answers are gathered and go out together: to write one takes the
//! system, and the client that is woken by it, longer than to make it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use super::Server;

/// No answer is begun while so many bytes wait for a client that does not read them.
const MOST_GATHERED: usize = 64 * 1024;

pub(super) struct Outlet<W> {
    server: Server,
    pipe: Arc<Pipe<W>>,
}

/// Writes what the outlet gathers.
pub(super) struct Drain<W> {
    pipe: Arc<Pipe<W>>,
}

struct Pipe<W> {
    ends: Mutex<Ends<W>>,
    /// There is something to write, or nothing more will come.
    news: Notify,
}

struct Ends<W> {
    out: W,
    /// What is to be written, in its order: the pieces, and then the last one, which grows.
    pieces: VecDeque<Bytes>,
    last: BytesMut,
    /// Whether the drain waits for the client. Only one can: whoever else tried would not be told, and the drain
    /// would not be told any more.
    is_draining: bool,
    is_over: bool,
    failed: Option<io::ErrorKind>,
    /// Who would write more.
    waits: Option<Waker>,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    pub(super) fn new(out: W, server: Server) -> (Outlet<W>, Drain<W>) {
        let pipe = Arc::new(Pipe {
            ends: Mutex::new(Ends {
                out,
                pieces: VecDeque::new(),
                last: BytesMut::new(),
                is_draining: false,
                is_over: false,
                failed: None,
                waits: None,
            }),
            news: Notify::new(),
        });
        let drain = Drain { pipe: pipe.clone() };
        (Outlet { server, pipe }, drain)
    }
}

impl<W: AsyncWrite + Unpin> Drain<W> {
    /// Until the outlet is gone and all is written, or nobody reads any more.
    pub(super) async fn run(self) -> io::Result<()> {
        loop {
            self.pipe.news.notified().await;
            // Whoever else is about to answer does so first.
            tokio::task::yield_now().await;
            poll_fn(|context| {
                let mut ends = self.pipe.lock();
                let written = ends.poll_out(context);
                ends.is_draining = written.is_pending();
                written
            })
            .await?;
            let ends = self.pipe.lock();
            if ends.is_over && ends.is_empty() {
                return Ok(());
            }
        }
    }
}

impl<W> Pipe<W> {
    fn lock(&self) -> MutexGuard<'_, Ends<W>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> Ends<W> {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.last.is_empty()
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum::<usize>() + self.last.len()
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl<W: AsyncWrite + Unpin> Ends<W> {
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = ready!(self.poll_all(context));
        self.failed = written.as_ref().err().map(io::Error::kind);
        if let Some(waits) = self.waits.take() {
            waits.wake();
        }
        Poll::Ready(written)
    }

    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        loop {
            let piece = match self.pieces.front_mut() {
                Some(piece) => piece as &mut dyn Buf,
                None => &mut self.last,
            };
            if piece.has_remaining() {
                match ready!(Pin::new(&mut self.out).poll_write(context, piece.chunk()))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => piece.advance(written),
                }
            } else if self.pieces.pop_front().is_none() {
                return Pin::new(&mut self.out).poll_flush(context);
            }
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Outlet<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        answer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut ends = self.pipe.lock();
        ends.check()?;
        if ends.len() >= MOST_GATHERED {
            ends.waits = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Some((place, list)) = self.server.list_in(answer) else {
            ends.last.extend_from_slice(answer);
            return Poll::Ready(Ok(answer.len()));
        };
        ends.last.extend_from_slice(&answer[..place.start]);
        let before = ends.last.split().freeze();
        ends.pieces.extend([before, list]);
        ends.last.extend_from_slice(&answer[place.end..]);
        Poll::Ready(Ok(answer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.pipe.lock();
        if self.server.is_idle() && !ends.is_draining {
            // What does not go out at once is left to the drain, which can wait for the client.
            let mut unheard = Context::from_waker(Waker::noop());
            if let Poll::Ready(written) = ends.poll_out(&mut unheard) {
                return Poll::Ready(written);
            }
        }
        drop(ends);
        self.pipe.news.notify_one();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl<W> Drop for Outlet<W> {
    fn drop(&mut self) {
        self.pipe.lock().is_over = true;
        self.pipe.news.notify_one();
    }
}
