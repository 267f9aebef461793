//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, pin};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::crowd::{Answering, Place, Seen};
use super::reception::Reception;

/// What is read of a head, and of a body before somebody wants it, in bytes; up to twice as much when it comes
/// in large pieces.
const MOST_READ: usize = 32 << 10;

/// Answers what comes until the client goes, is closed, or `stopping` says that nothing more is begun.
pub(super) async fn serve<S>(
    stream: S,
    place: Place,
    reception: Arc<Reception>,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let seen = place.seen.clone();
    let service = service_fn(move |request| {
        let (answering, reception) = (seen.begins(), reception.clone());
        async move {
            let answer = reception.answer(request).await;
            Ok::<_, Infallible>(answer.map(|body| Answer { body, answering }))
        }
    });
    // In HTTP/2 a client can let an answer wait for ever without ever being written to, and nobody who has no
    // TLS speaks it.
    let mut builder = Builder::new();
    builder.max_buf_size(MOST_READ);
    let io = TokioIo::new(Watched {
        stream,
        seen: place.seen.clone(),
    });
    let mut connection = pin::pin!(builder.serve_connection(io, service));
    let mut told = false;
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = place.lost() => return,
            _ = stopping.wait_for(|it| *it), if !told => {
                told = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A body that tells when it is over.
struct Answer {
    body: Body,
    #[expect(dead_code, reason = "it is dropped with the body")]
    answering: Answering,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose traffic is seen.
struct Watched<S> {
    stream: S,
    seen: Arc<Seen>,
}

impl<S> Watched<S> {
    fn says<T>(&self, done: Poll<T>) -> Poll<T> {
        self.seen.says(done.is_ready());
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        self.seen.hears();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.says(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.says(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
