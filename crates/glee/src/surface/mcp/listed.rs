//! Lists of tools go out as bytes that were made once. rmcp makes each answer from values, which takes
//! longer than all the rest when there are thousands of tools. So it is given one tool that stands for
//! all, and where an answer leaves the server, their bytes take its place.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use memchr::memmem::Finder;
use rmcp::model::{JsonObject, Tool};
use tokio::io::AsyncWrite;
use uuid::Uuid;

use super::Server;

/// The tool that stands for all. Its name is this process's own and never leaves it, so that nothing
/// else that is sent can be taken for it.
pub(super) struct StandIn {
    pub(super) tool: Tool,
    text: Finder<'static>,
}

impl StandIn {
    pub(super) fn new() -> StandIn {
        let name = Uuid::new_v4().to_string();
        let tool = Tool::new(name, "", JsonObject::new());
        // Made in the way in which rmcp makes answers.
        let text = serde_json::to_vec(&tool).unwrap_or_default();
        StandIn {
            tool,
            text: Finder::new(&text).into_owned(),
        }
    }
}

/// As they stand in an answer: one after the other, without the brackets.
pub(super) fn text(tools: &[Tool]) -> Bytes {
    let mut text = Bytes::from(serde_json::to_vec(tools).unwrap_or_default());
    text.truncate(text.len().saturating_sub(1));
    text.advance(1.min(text.len()));
    text
}

impl Server {
    /// Where in an answer the list of tools belongs, and the list, when it is an answer that has one.
    pub fn list_in(&self, answer: &[u8]) -> Option<(Range<usize>, Bytes)> {
        let text = &self.shared.stand_in.text;
        let start = text.find(answer)?;
        let end = start + text.needle().len();
        Some((start..end, self.shown().listed.clone()))
    }
}

/// The way out of a server that speaks through a pipe. It is given answers whole.
pub struct Outlet<W> {
    inner: W,
    server: Server,
    /// What was taken and is not written yet.
    left: VecDeque<Bytes>,
    /// So many bytes that come next hold no list. A large answer comes again and again until it is written, and is
    /// looked through once.
    plain: usize,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    pub fn new(inner: W, server: Server) -> Outlet<W> {
        Outlet {
            inner,
            server,
            left: VecDeque::new(),
            plain: 0,
        }
    }

    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(piece) = self.left.front_mut() {
            if piece.is_empty() {
                self.left.pop_front();
                continue;
            }
            match ready!(Pin::new(&mut self.inner).poll_write(context, piece))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => piece.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Outlet<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        answer: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_left(context))?;
        if self.plain == 0 {
            if let Some((place, list)) = self.server.list_in(answer) {
                let before = Bytes::copy_from_slice(&answer[..place.start]);
                self.left.extend([before, list]);
                // What comes after it comes again.
                return Poll::Ready(Ok(place.end));
            }
            self.plain = answer.len();
        }
        let known = &answer[..answer.len().min(self.plain)];
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, known))?;
        self.plain -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_left(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
