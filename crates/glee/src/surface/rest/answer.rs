//! What goes out, and what is read of what comes in.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt};
use futures_util::StreamExt;
use glee_core::json;
use glee_core::outcome::{Failure, FailureKind, Outcome};
use glee_core::turn::RETRY_AFTER;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::status;
use crate::dialect::bundle::archive::MOST_BYTES;
use crate::dialect::native;

/// A failure as an answer: `{ok: false, error: {code, message, details, hint?, retryable}}`.
pub(super) struct Refused(pub(super) Failure);

pub(super) type Answer = Result<Json<Value>, Refused>;

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused(failure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({"ok": false, "error": native::error(&self.0)});
        failed(&self.0, body)
    }
}

/// There is no such path.
pub(super) async fn nowhere(uri: Uri) -> Refused {
    let path = glee_core::name::shorten(uri.path());
    let why = format!("there is nothing at `{path}`");
    Refused(Failure::new(FailureKind::NotFound, why).hint("GET /docs tells what there is"))
}

/// There is such a path, and nothing of the kind can be done with it.
pub(super) async fn not_so(method: Method) -> Response {
    let why = format!("{method} is not what can be done with this");
    let failure = Failure::new(FailureKind::InvalidInput, why).hint("GET /docs tells what can");
    let mut response = Refused(failure).into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

/// A body did not come within this time and what it has besides for its size. What is left of it is not read, so
/// the connection is of no more use.
pub fn too_slow(time: Duration) -> Response {
    let why = format!(
        "the body did not come in time, so nothing was done: it has {} ms, and a second more for each 64 KiB of it",
        time.as_millis()
    );
    let failure = Failure::new(FailureKind::Timeout, why)
        .hint("send it again without a pause; `server.body_timeout_ms` in .glee/config.yml gives it longer")
        .retryable();
    let mut response = Refused(failure).into_response();
    *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// What became of a call.
pub(super) fn outcome(outcome: &Outcome, body: Value) -> Response {
    match &outcome.result {
        Ok(_) => Json(body).into_response(),
        Err(failure) => failed(failure, body),
    }
}

fn failed(failure: &Failure, body: Value) -> Response {
    let mut response = (status::of(failure.kind), Json(body)).into_response();
    if failure.kind == FailureKind::RateLimited {
        let wait = failure.details.get(RETRY_AFTER).and_then(Value::as_u64);
        let seconds = wait.unwrap_or_default().div_ceil(1000).max(1);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A body that is a JSON object and says so.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Refused> {
        let Anything(value) = Anything::from_request(request, state).await?;
        // A list would be taken for the fields of an object, in order.
        if !value.is_object() {
            return Err(bad("the body should be a JSON object".into()));
        }
        serde_json::from_value(value)
            .map(Body)
            .map_err(|err| bad(format!("the body is not what it should be: {err}")))
    }
}

/// How an archive is called in headers.
pub(super) const ZIP: &str = "application/zip";

/// A body that says that it is an archive.
pub(super) struct Zip(pub(super) Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Zip {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Zip, Refused> {
        let why = "send a ZIP archive, with Content-Type: application/zip";
        is_of(&request, ZIP, why)?;
        let said = request.headers().get(header::CONTENT_LENGTH);
        let said = said.and_then(|it| it.to_str().ok()?.parse().ok());
        // It may be large, so there is never a second copy of it.
        let mut bytes = Vec::with_capacity(said.unwrap_or(0).min(MOST_BYTES));
        let mut body = request.into_limited_body().into_data_stream();
        while let Some(chunk) = body.next().await {
            bytes.extend_from_slice(&chunk.map_err(unread)?);
        }
        Ok(Zip(bytes))
    }
}

/// Whether a body is of this kind, which it must say.
fn is_of(request: &Request, wanted: &str, otherwise: &str) -> Result<(), Refused> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case(wanted) {
        true => Ok(()),
        false => Err(bad(otherwise.to_owned())),
    }
}

fn unread(err: impl std::fmt::Display) -> Refused {
    bad(format!("the body cannot be read: {err}"))
}

/// A body that is JSON and says so. A page of another origin cannot send that without asking first.
pub(super) struct Anything(pub(super) Value);

fn bad(why: String) -> Refused {
    Refused(Failure::new(FailureKind::InvalidInput, why))
}

impl<S: Send + Sync> FromRequest<S> for Anything {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Anything, Refused> {
        let why = "send JSON, with Content-Type: application/json";
        is_of(&request, "application/json", why)?;
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| bad("the body is not text".into()))?;
        // Of two equal keys a person may have seen the other one.
        let value = json::parse(text).map_err(|err| bad(format!("the body is {err}")))?;
        Ok(Anything(value))
    }
}
