//! Where calls that need no session's stream are answered: in one piece, or, when they have something to say before
//! they are over, in a stream of their own.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use rmcp::model::{ServerJsonRpcMessage, ServerNotification};
use serde::Serialize;
use tokio::sync::mpsc;

use super::guard::refuse;
use crate::surface::mcp::Server;
use crate::surface::mcp::session::{Call, Taken};

/// Requests of more bytes than this take so long that it does not matter which way they go.
const LONGEST: usize = 64 << 10;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Answer = Pin<Box<dyn Future<Output = Option<ServerJsonRpcMessage>> + Send>>;

pub(super) async fn answer(State(server): State<Server>, request: Request, next: Next) -> Response {
    let is_plain = request.method() == Method::POST && is_plain(request.headers());
    let session = match is_plain {
        true => server.session(request.headers()),
        false => None,
    };
    let Some(session) = session else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LONGEST).await else {
        return refuse(StatusCode::BAD_REQUEST, "the request did not come whole");
    };
    match session.takes(parts, &body) {
        Taken::Call(call) => answered(*call).await,
        Taken::Back => StatusCode::ACCEPTED.into_response(),
        Taken::Not(parts) => next.run(Request::from_parts(*parts, body.into())).await,
    }
}

/// Whether the head says nothing that rmcp would have to judge.
fn is_plain(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let length = text(header::CONTENT_LENGTH).and_then(|it| it.parse::<usize>().ok());
    let accepts = text(header::ACCEPT).unwrap_or_default();
    let of_protocol = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("mcp-"));
    length.is_some_and(|it| it <= LONGEST)
        && accepts.contains(JSON)
        && accepts.contains(EVENTS)
        && text(header::CONTENT_TYPE).is_some_and(|it| it.starts_with(JSON))
        && of_protocol.into_iter().all(|(name, value)| {
            let value = value.to_str().unwrap_or_default();
            match name.as_str() {
                "mcp-session-id" => true,
                "mcp-protocol-version" => Server::shakes_hands(value),
                _ => false,
            }
        })
}

async fn answered(call: Call) -> Response {
    let (answer, mut notes) = call.answer();
    let mut answer: Answer = Box::pin(answer);
    tokio::select! {
        biased;
        Some(note) = notes.recv() => events(told(note, notes, answer)),
        answer = &mut answer => match answer {
            Some(answer) => ([(header::CONTENT_TYPE, JSON)], text(&answer)).into_response(),
            None => events(stream::empty()),
        },
    }
}

fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, EVENTS)], body).into_response()
}

/// All notes, then the answer.
fn told(
    first: ServerNotification,
    notes: mpsc::Receiver<ServerNotification>,
    answer: Answer,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let rest = stream::unfold(Some((notes, answer)), async |going| {
        let (mut notes, mut answer) = going?;
        tokio::select! {
            biased;
            Some(note) = notes.recv() => Some((notified(note), Some((notes, answer)))),
            answer = &mut answer => answer.map(|it| (event(&it), None)),
        }
    });
    stream::iter([notified(first)]).chain(rest)
}

fn notified(note: ServerNotification) -> Bytes {
    event(&ServerJsonRpcMessage::notification(note))
}

fn event(message: &ServerJsonRpcMessage) -> Bytes {
    let mut event = b"data: ".to_vec();
    event.extend(text(message));
    event.extend(b"\n\n");
    event.into()
}

/// JSON has no line breaks but in what is written with escapes.
fn text(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
