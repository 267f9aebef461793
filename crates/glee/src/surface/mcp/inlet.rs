//! The way into a server that listens to a pipe: calls of tools are taken out, the rest goes on to rmcp.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};

use super::direct::Direct;

/// How much is read at once.
const CHUNK: usize = 16 << 10;
/// Longer lines are rmcp's, which knows how long one may be.
const LONGEST_TAKEN: usize = 1 << 20;

pub(super) struct Inlet<R> {
    from: R,
    chunk: Box<[u8]>,
    direct: Arc<Direct>,
    /// What has come and was not looked at: the beginning of a line.
    come: BytesMut,
    /// What goes on to rmcp.
    passed: BytesMut,
    /// Whether the line that has begun is rmcp's, whatever it says.
    is_passing: bool,
}

impl<R> Inlet<R> {
    pub(super) fn new(from: R, direct: Arc<Direct>) -> Inlet<R> {
        Inlet {
            from,
            chunk: vec![0; CHUNK].into(),
            direct,
            come: BytesMut::new(),
            passed: BytesMut::new(),
            is_passing: false,
        }
    }

    /// `from` on, nothing has been looked at.
    fn sort(&mut self, mut from: usize) {
        while let Some(end) = memchr(b'\n', &self.come[from..]) {
            let line = self.come.split_to(from + end + 1);
            if std::mem::take(&mut self.is_passing) || !self.direct.takes(&line) {
                self.passed.extend_from_slice(&line);
            }
            from = 0;
        }
        if self.is_passing || self.come.len() > LONGEST_TAKEN {
            self.is_passing = true;
            self.passed.extend_from_slice(&self.come.split());
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Inlet<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.passed.is_empty() {
            // Whoever does not read the answers is not asked for more calls.
            ready!(this.direct.poll_room(context));
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.from).poll_read(context, &mut chunk))?;
            let known = this.come.len();
            this.come.extend_from_slice(chunk.filled());
            if this.come.len() == known {
                // What is left has no end: what becomes of it is rmcp's to say, once.
                this.passed = this.come.split();
                break;
            }
            this.sort(known);
        }
        let length = this.passed.len().min(into.remaining());
        into.put_slice(&this.passed[..length]);
        this.passed.advance(length);
        Poll::Ready(Ok(()))
    }
}
