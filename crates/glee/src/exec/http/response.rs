//! What came back: judged by its status, read within bounds.

use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::model::{Http, Method};
use glee_core::outcome::{Failure, FailureKind, Output, Truncated};
use glee_core::redact::Redactor;
use glee_core::secret::{Secret, SecretValues};
use glee_core::shape::{Body, Raw};
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;

use super::{Answer, lost, redirect};

/// Kept of the body of a response that is a failure.
const FAILURE_BYTES: usize = 2 << 10;
/// Waited for it. The status is the failure, and must not drown in a timeout.
const FAILURE_WAIT: Duration = Duration::from_secs(1);

pub(super) fn is_success(http: &Http, status: StatusCode) -> bool {
    match http.success_codes.as_slice() {
        [] => status.is_success(),
        codes => codes.contains(&status.as_u16()),
    }
}

pub(super) async fn read(http: &Http, call: &Admitted, answer: Answer) -> Result<Raw, Failure> {
    let Answer { response, token } = answer;
    if !is_success(http, response.status()) {
        let mut secrets = call.secrets().clone();
        secrets.extend(token.map(named));
        return Err(failure(response, &Redactor::new(&secrets)).await);
    }
    let raw = if http.method == Method::Head {
        head(&response)
    } else {
        let (bytes, truncated) = bounded(response, call.spec().limits.output_bytes).await?;
        Raw {
            truncated,
            ..Raw::from(Body::Bytes(bytes))
        }
    };
    Ok(match token {
        Some(token) => hide(raw, token),
        None => raw,
    })
}

/// The body, decompressed, up to a limit. What lies beyond it is not received.
pub(super) async fn bounded(
    mut response: Response,
    limit: usize,
) -> Result<(Vec<u8>, Option<Truncated>), Failure> {
    // Unknown when compressed: then the header tells the size on the wire.
    let total = response.content_length();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost::body)? {
        let room = limit - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            let kept = limit as u64;
            return Ok((bytes, Some(Truncated { kept, total })));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, None))
}

fn head(response: &Response) -> Raw {
    let status = response.status().as_u16();
    let headers = headers(response.headers());
    Body::Value(json!({"status": status, "headers": headers})).into()
}

pub(super) fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let mut out = Map::new();
    for name in headers.keys() {
        let values: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|it| String::from_utf8_lossy(it.as_bytes()))
            .collect();
        out.insert(name.to_string(), values.join(", ").into());
    }
    out
}

async fn failure(response: Response, redactor: &Redactor) -> Failure {
    let status = response.status();
    let redirect = redirect::location(&response).and_then(|it| response.url().join(&it).ok());
    let host = response.url().host_str().unwrap_or_default().to_owned();
    let failure = match redirect {
        Some(target) => redirected(&host, status, &target),
        None => answered(&host, status),
    };
    let failure = failure.with("status", status.as_u16());
    match tokio::time::timeout(FAILURE_WAIT, bounded(response, FAILURE_BYTES)).await {
        Ok(Ok((bytes, truncated))) => failure.with("body", excerpt(&bytes, truncated, redactor)),
        Ok(Err(_)) | Err(_) => failure,
    }
}

fn answered(host: &str, status: StatusCode) -> Failure {
    let failure = Failure::new(
        FailureKind::HttpError,
        format!("`{host}` answered {status}"),
    );
    match status.as_u16() {
        401 | 403 => failure.hint("check the credentials this tool sends and what they may do"),
        404 => failure.hint("check the URL and the arguments that fill it"),
        429 => failure
            .hint("the service asks to wait; try again later")
            .retryable(),
        500.. => failure
            .hint("the service has a problem; try again later")
            .retryable(),
        _ => failure.hint("see `details.body` for what the service says"),
    }
}

fn redirected(host: &str, status: StatusCode, target: &Url) -> Failure {
    let target = target.host_str().unwrap_or_default();
    Failure::new(
        FailureKind::HttpError,
        format!("`{host}` answered {status}, a redirect to `{target}`, which was not followed"),
    )
    .with("location_host", target)
    .hint("set `redirects: follow` under `exec.http`, or ask the final URL directly")
}

/// The beginning of a body as text. Secrets go before the runtime takes them out, because here it is
/// still known that the text was cut and may end in half of one.
fn excerpt(bytes: &[u8], truncated: Option<Truncated>, redactor: &Redactor) -> Value {
    let text = match std::str::from_utf8(bytes) {
        Err(err) if truncated.is_some() && err.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..err.valid_up_to()])
        }
        _ => String::from_utf8_lossy(bytes),
    };
    let output = Output {
        value: Value::String(text.into_owned()),
        truncated,
        ..Output::default()
    };
    redactor.output(output).value
}

/// Takes out a token the runtime does not know of: it was fetched during the call.
fn hide(raw: Raw, token: Secret) -> Raw {
    let redactor = Redactor::new(&SecretValues::from([named(token)]));
    let body = match raw.body {
        Body::Value(value) => Body::Value(redactor.value(value)),
        Body::Nothing(why) => Body::Nothing(redactor.text(why)),
        Body::Bytes(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            match excerpt(&bytes, raw.truncated, &redactor) {
                Value::String(hidden) if hidden != text => Body::Bytes(hidden.into_bytes()),
                _ => Body::Bytes(bytes),
            }
        }
    };
    Raw { body, ..raw }
}

fn named(token: Secret) -> (String, Secret) {
    ("access_token".to_owned(), token)
}
