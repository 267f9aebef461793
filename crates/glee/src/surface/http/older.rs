//! Clients of older revisions take every event for a message, and end the connection at one without
//! data. Newer ones learn from such an event where to go on; only they get it.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, future};

/// The first revision that knows of events without data.
const NEWER: &str = "2025-11-25";

pub(super) async fn spare(request: Request, next: Next) -> Response {
    let newer = knows_empty_events(request.headers());
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    if newer || kind.is_none_or(|it| it != "text/event-stream") {
        return response;
    }
    response.map(|body| {
        let events = body.into_data_stream();
        let told = events.filter(|it| future::ready(!it.as_ref().is_ok_and(is_empty)));
        Body::from_stream(told)
    })
}

/// A client that does not name its revision is an old one.
fn knows_empty_events(headers: &HeaderMap) -> bool {
    let named = headers.get("mcp-protocol-version");
    named
        .and_then(|it| it.to_str().ok())
        .is_some_and(|it| it >= NEWER)
}

/// Events come whole, one at a time.
fn is_empty(event: &Bytes) -> bool {
    let mut data = event
        .split(|it| *it == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .peekable();
    data.peek().is_some() && data.all(|it| it.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_data() {
        for (event, empty) in [
            ("data:\nid: 0\nretry: 3000\n\n", true),
            ("id: 0\ndata: \n\n", true),
            ("data: {}\n\n", false),
            ("data:\ndata: {}\n\n", false),
            // A sign of life, which is a comment.
            (":\n\n", false),
        ] {
            assert_eq!(is_empty(&Bytes::from(event)), empty, "{event:?}");
        }
    }
}
