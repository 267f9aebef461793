//! Bodies of requests come at a pace, or not at all: whoever sends a byte now and then holds nothing for long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::surface::rest;

/// What must come in each second when the time that everybody has is over.
const PER_SECOND: u64 = 64 << 10;

/// Whatever was made of a body that did not come, its sender is told that it did not.
pub(super) async fn keep(State(time): State<Duration>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let late = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| {
        Body::new(Paced {
            body,
            due: Instant::now() + time,
            came: 0,
            alarm: None,
            late: late.clone(),
        })
    });
    let response = next.run(request).await;
    match late.load(Ordering::Relaxed) {
        true => rest::too_slow(time).await,
        false => response,
    }
}

#[derive(Debug, Error)]
#[error("it took too long to come")]
struct TooSlow;

struct Paced {
    body: Body,
    /// When all of it must be there, were it empty.
    due: Instant,
    came: u64,
    /// Set when something is waited for, and most bodies are there at once.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Told to whoever answers.
    late: Arc<AtomicBool>,
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if let Some(data) = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref()) {
                self.came += data.len() as u64;
                self.alarm = None;
            }
            return Poll::Ready(frame);
        }
        let due = self.due + Duration::from_secs(self.came / PER_SECOND);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        ready!(alarm.as_mut().poll(context));
        self.late.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
