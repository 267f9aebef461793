//! Where calls that need no session's stream are answered: in one piece, or, when they have something to say before
//! they are over, in a stream of their own.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, future, stream};
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

/// Whose calls they are, and how many bytes a request may have to be answered here.
#[derive(Clone)]
pub(super) struct Desk {
    server: Server,
    longest: usize,
}

impl Desk {
    pub(super) fn new(server: Server, request_bytes: usize) -> Desk {
        Desk {
            server,
            longest: request_bytes.min(LONGEST),
        }
    }
}

pub(super) async fn answer(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    let is_plain = request.method() == Method::POST && is_plain(request.headers(), desk.longest);
    let session = match is_plain {
        true => desk.server.session(request.headers()),
        false => None,
    };
    let Some(session) = session else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, desk.longest).await else {
        return refuse(StatusCode::BAD_REQUEST, "the request did not come whole");
    };
    match session.takes(parts, &body) {
        Taken::Call(call) => answered(*call).await,
        Taken::Not(parts) => next.run(Request::from_parts(*parts, body.into())).await,
    }
}

/// Whether the head says nothing that rmcp would have to judge.
fn is_plain(headers: &HeaderMap, longest: usize) -> bool {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let length = text(header::CONTENT_LENGTH).and_then(|it| it.parse::<usize>().ok());
    let accepts = text(header::ACCEPT).unwrap_or_default();
    let of_protocol = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("mcp-"));
    length.is_some_and(|it| it <= longest)
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
    let answer = tokio::select! {
        biased;
        Some(note) = notes.recv() => {
            let first = stream::iter([notified(note)]);
            return events(first.chain(told(notes, answer)));
        }
        answer = &mut answer => answer,
    };
    // A note may have come in the same moment.
    match (answer, notes.try_recv()) {
        (answer, Ok(note)) => {
            let first = stream::iter([notified(note)]);
            events(first.chain(told(notes, Box::pin(future::ready(answer)))))
        }
        (Some(answer), Err(_)) => ([(header::CONTENT_TYPE, JSON)], text(&answer)).into_response(),
        (None, Err(_)) => events(stream::empty()),
    }
}

fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    // Some proxies would keep the events until there are many.
    let head = [
        (header::CONTENT_TYPE.as_str(), EVENTS),
        ("x-accel-buffering", "no"),
    ];
    (head, body).into_response()
}

/// All notes, then the answer. When that is there, all notes are on their way.
fn told(
    notes: mpsc::Receiver<ServerNotification>,
    answer: Answer,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold(Some((notes, answer)), async |going| {
        let (mut notes, mut answer) = going?;
        let answer = tokio::select! {
            biased;
            Some(note) = notes.recv() => return Some((notified(note), Some((notes, answer)))),
            answer = &mut answer => answer,
        };
        match (notes.try_recv(), answer) {
            (Ok(note), answer) => {
                let answer: Answer = Box::pin(future::ready(answer));
                Some((notified(note), Some((notes, answer))))
            }
            (Err(_), answer) => answer.map(|it| (event(&it), None)),
        }
    })
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

#[cfg(test)]
mod tests {
    use rmcp::model::{
        NumberOrString, ProgressNotification, ProgressNotificationParam, ProgressToken,
    };

    use super::*;

    fn note(done: f64) -> ServerNotification {
        let token = ProgressToken(NumberOrString::Number(1));
        ProgressNotification::new(ProgressNotificationParam::new(token, done)).into()
    }

    /// Also those that come in the same moment.
    #[tokio::test]
    async fn notes_come_before_the_answer() {
        let (say, notes) = mpsc::channel(4);
        let answer: Answer = Box::pin(async move {
            for done in [1.0, 2.0] {
                say.try_send(note(done)).unwrap();
            }
            Some(ServerJsonRpcMessage::notification(note(3.0)))
        });
        let events: Vec<Bytes> = told(notes, answer).collect().await;
        let expected = [1.0, 2.0, 3.0].map(|it| notified(note(it)));
        assert_eq!(events, expected);
    }
}
