//! The way into a server that listens to a pipe: calls of tools are taken out, the rest goes on to rmcp.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use memchr::memchr_iter;
use tokio::io::{AsyncRead, ReadBuf};

use super::direct::{Direct, Listener};

/// How much is read at once.
const CHUNK: usize = 16 << 10;
/// Longer lines are rmcp's, which knows how long one may be.
const LONGEST_TAKEN: usize = 1 << 20;

pub(super) struct Inlet<R> {
    from: R,
    chunk: Box<[u8]>,
    direct: Arc<Direct>,
    /// What has come and was not looked at: the beginning of a line.
    come: Vec<u8>,
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
            come: Vec::new(),
            passed: BytesMut::new(),
            is_passing: false,
        }
    }

    /// `from` on, nothing has been looked at.
    fn sort(&mut self, from: usize) {
        let mut start = 0;
        for end in memchr_iter(b'\n', &self.come[from..]) {
            let line = &self.come[start..=from + end];
            if std::mem::take(&mut self.is_passing) || !self.direct.takes(line) {
                self.passed.extend_from_slice(line);
            }
            start = from + end + 1;
        }
        self.come.drain(..start);
        if self.is_passing || self.come.len() > LONGEST_TAKEN {
            self.is_passing = true;
            self.passed.extend_from_slice(&self.come);
            self.come.clear();
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
            // Who reads no answers has nothing more to ask.
            if this.direct.listener() == Listener::Gone {
                this.direct.end_of_input();
                return Poll::Ready(Ok(()));
            }
            ready!(this.direct.poll_turn(context));
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.from).poll_read(context, &mut chunk))?;
            let known = this.come.len();
            this.come.extend_from_slice(chunk.filled());
            if this.come.len() == known {
                this.direct.end_of_input();
                // What is left has no end: what becomes of it is rmcp's to say, once.
                this.passed.extend_from_slice(&this.come);
                this.come.clear();
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;
    use std::task::Waker;

    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::super::Server;
    use super::super::direct::{self, tests::Counted};
    use super::*;
    use crate::app::{App, Wiring};
    use crate::approve::absent::Absent;
    use crate::project::Project;
    use crate::surface::principal::Principal;

    /// Comes in these pieces.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.pop_front() {
                into.put_slice(&piece);
            }
            Poll::Ready(Ok(()))
        }
    }

    fn inlet(pieces: Vec<Vec<u8>>, out: Arc<Counted>) -> (tempfile::TempDir, Inlet<Pieces>) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(".glee/tools")).unwrap();
        let project = Project::at(root.path()).unwrap().unwrap();
        let app = App::open(project, Wiring::with(Absent)).unwrap();
        let server = Server::new(Arc::new(app), Principal::usual("mcp"));
        let direct = Arc::new(Direct::new(server, out));
        (root, Inlet::new(Pieces(pieces.into()), direct))
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn before_hands_are_shaken_everything_goes_on_as_it_came(
            pieces in prop::collection::vec("[a\r\n]{1,9}|\\{\"method\":\"tools/call\"\\}\n", 0..20)
        ) {
            let all = pieces.concat();
            let pieces = pieces.into_iter().map(String::into_bytes).collect();
            let (_root, mut inlet) = inlet(pieces, Arc::default());
            let mut passed = Vec::new();
            runtime().block_on(inlet.read_to_end(&mut passed)).unwrap();
            prop_assert_eq!(passed, all.into_bytes());
        }
    }

    #[test]
    fn a_line_that_is_too_long_to_be_kept_goes_on_in_pieces() {
        let piece = vec![b'x'; CHUNK];
        let count = LONGEST_TAKEN / CHUNK + 2;
        let (_root, mut inlet) = inlet(vec![piece; count], Arc::default());
        let mut passed = vec![0; LONGEST_TAKEN];
        runtime().block_on(inlet.read_exact(&mut passed)).unwrap();
        assert!(!inlet.from.0.is_empty(), "all of it was kept");
    }

    #[tokio::test]
    async fn nothing_is_read_from_who_reads_no_answers() {
        let out = Arc::new(Counted::default());
        out.is_gone.store(true, Ordering::Relaxed);
        let (_root, mut inlet) = inlet(vec![b"hello\n".to_vec()], out);
        let mut passed = Vec::new();
        inlet.read_to_end(&mut passed).await.unwrap();
        assert_eq!((passed.len(), inlet.from.0.len()), (0, 1));
    }

    #[tokio::test]
    async fn nothing_is_read_while_too_much_is_under_way() {
        let (_root, mut inlet) = inlet(vec![b"hello\n".to_vec()], Arc::default());
        let crowd = direct::tests::crowd(&inlet.direct);
        let mut passed = [0; 6];
        let mut read = Box::pin(inlet.read_exact(&mut passed));
        let mut unheard = Context::from_waker(Waker::noop());
        assert!(read.as_mut().poll(&mut unheard).is_pending());
        let (waiting, _) = tokio::join!(read, async { drop(crowd) });
        waiting.unwrap();
        assert_eq!(passed, *b"hello\n");
    }
}
