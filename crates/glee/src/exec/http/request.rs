//! The request of one call: the author's templates, filled.

use bytes::Bytes;
use glee_core::model::{Http, Method};
use glee_core::outcome::Failure;
use glee_core::template::{Hole, Scope, Source, TooLarge};
use glee_core::url_template::{FillError, UrlTemplate};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Map, Value, json};
use url::Url;

use super::{content, header, invalid};

pub(super) const AGENT: &str = concat!("glee/", env!("CARGO_PKG_VERSION"));

/// Not printable: its URL and body may hold secrets.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) method: reqwest::Method,
    pub(super) url: Url,
    /// Those that carry a secret are marked sensitive.
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Body>,
}

#[derive(Clone)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) holds_secret: bool,
}

impl Request {
    pub(super) fn fill(http: &Http, scope: &Scope<'_>) -> Result<Request, Failure> {
        let mut request = Request {
            method: method(http.method),
            url: url(&http.url, scope)?,
            headers: headers(http, scope)?,
            body: None,
        };
        for (key, value) in &http.query {
            if let Some(value) = value.fill(scope).map_err(too_large)? {
                for pair in content::pairs(key, value) {
                    request.add_query(&pair);
                }
            }
        }
        if let Some(body) = &http.body
            && !matches!(http.method, Method::Get | Method::Head)
        {
            let kind = content::Kind::of(request.headers.get(CONTENT_TYPE));
            if let Some((bytes, default)) = content::fill(body, kind, scope)? {
                request
                    .headers
                    .entry(CONTENT_TYPE)
                    .or_insert(HeaderValue::from_static(default));
                request.body = Some(Body {
                    bytes: bytes.into(),
                    holds_secret: body.holes().into_iter().any(is_secret),
                });
            }
        }
        request
            .headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        Ok(request)
    }

    /// Appends one pair that is already encoded.
    pub(super) fn add_query(&mut self, pair: &str) {
        let query = match self.url.query() {
            None | Some("") => pair.to_owned(),
            Some(query) => format!("{query}&{pair}"),
        };
        self.url.set_query(Some(&query));
    }

    pub(super) fn show(&self) -> Value {
        let headers: Map<String, Value> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect();
        let body = self
            .body
            .as_ref()
            .map(|body| serde_json::from_slice(&body.bytes).unwrap_or_else(|_| text(&body.bytes)));
        json!({
            "method": self.method.as_str(),
            "url": self.url.as_str(),
            "headers": headers,
            "body": body,
        })
    }
}

/// The URL, or why the arguments do not make one.
pub(super) fn url(template: &UrlTemplate, scope: &Scope<'_>) -> Result<Url, Failure> {
    template.fill(scope).map_err(|err| match err {
        FillError::TooLarge(err) => too_large(err),
        err => invalid(err.to_string()),
    })
}

pub(super) fn is_secret(hole: &Hole) -> bool {
    hole.source == Source::Secret
}

pub(super) fn too_large(err: TooLarge) -> Failure {
    invalid(err.to_string()).hint("pass shorter arguments")
}

fn headers(http: &Http, scope: &Scope<'_>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, template) in &http.headers {
        let name = header::name(name)?;
        let kind = if template.holes().any(is_secret) {
            header::Kind::Secret
        } else {
            header::Kind::Open
        };
        if let Some(text) = template.text(scope).map_err(too_large)? {
            let value = header::value(&name, &text, kind)?;
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
        Method::Head => reqwest::Method::HEAD,
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}
