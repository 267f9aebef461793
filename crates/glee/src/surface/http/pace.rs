//! Bodies of requests come at a pace, or not at all: whoever sends a byte now and then holds nothing for long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

/// What must come in each second when the time that everybody has is over.
const PER_SECOND: u64 = 64 << 10;

#[derive(Debug, Error)]
#[error("it took too long to come")]
struct TooSlow;

pub(super) struct Paced {
    body: Incoming,
    /// When all of it must be there, were it empty.
    due: Instant,
    came: u64,
    /// Set when something is waited for, and most bodies are there at once.
    alarm: Option<Pin<Box<Sleep>>>,
    late: Late,
}

/// Whether a body was too slow, for whoever answers.
#[derive(Clone, Default)]
pub(super) struct Late(Arc<AtomicBool>);

impl Late {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Paced {
    pub(super) fn request(request: Request<Incoming>, time: Duration) -> (Request<Paced>, Late) {
        let late = Late::default();
        let request = request.map(|body| Paced {
            body,
            due: Instant::now() + time,
            came: 0,
            alarm: None,
            late: late.clone(),
        });
        (request, late)
    }
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
            return Poll::Ready(frame.map(|it| it.map_err(axum::Error::new)));
        }
        let due = self.due + Duration::from_secs(self.came / PER_SECOND);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        ready!(alarm.as_mut().poll(context));
        self.late.0.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
