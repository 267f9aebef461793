//! Where lists of tools are put into the answers that have one.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, stream};

use crate::surface::mcp::Server;

pub(super) async fn fill(State(server): State<Server>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if !response.headers().contains_key(header::CONTENT_TYPE) {
        return response;
    }
    response.map(|body| {
        let pieces = body.into_data_stream().flat_map(move |chunk| {
            stream::iter(match chunk {
                Ok(answer) => pieces(&server, answer).into_iter().map(Ok).collect(),
                Err(err) => vec![Err(err)],
            })
        });
        Body::from_stream(pieces)
    })
}

/// Answers come whole, one at a time.
fn pieces(server: &Server, answer: Bytes) -> Vec<Bytes> {
    match server.list_in(&answer) {
        Some((place, list)) => vec![answer.slice(..place.start), list, answer.slice(place.end..)],
        None => vec![answer],
    }
}
