//! OAuth 2.0 access tokens: client credentials and refresh token, fetched when needed and kept while
//! they are fresh.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glee_core::model::OAuthGrant;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::secret::Secret;
use glee_core::template::{Scope, Template};
use glee_core::url_template::{UrlTemplate, encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;

use super::lost::Failed;
use super::request::{Body, Request, too_large, url};
use super::response;

/// A token about to expire would do so on its way.
const MARGIN: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 64 << 10;
const MOST_TOKENS: usize = 256;

/// What a token is asked for with.
pub(super) struct Grant {
    pub(super) url: Url,
    fields: Vec<(&'static str, Secret)>,
}

#[derive(Clone)]
pub(super) struct Token {
    text: Secret,
    /// Unknown when the server does not say; such a token is used until it is refused.
    expires: Option<Instant>,
    /// Some servers give a new refresh token each time, and the old one no longer works.
    refresh: Option<Secret>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

/// The tokens in use, by a hash of what they were asked for with.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<[u8; 32], Slot>>);

impl Grant {
    /// `None` when an optional secret it is made of is absent.
    pub(super) fn fill(
        token_url: &UrlTemplate,
        grant: &OAuthGrant,
        client_id: &Template,
        client_secret: Option<&Template>,
        asked: Option<&str>,
        scope: &Scope<'_>,
    ) -> Result<Option<Grant>, Failure> {
        let (kind, refresh) = match grant {
            OAuthGrant::ClientCredentials => ("client_credentials", None),
            OAuthGrant::RefreshToken(token) => ("refresh_token", Some(token)),
        };
        let mut fields = vec![("grant_type", Secret::new(kind))];
        let templates = [
            ("client_id", Some(client_id)),
            ("client_secret", client_secret),
            ("refresh_token", refresh),
        ];
        for (name, template) in templates {
            let Some(template) = template else { continue };
            match template.text(scope).map_err(too_large)? {
                Some(text) => fields.push((name, Secret::new(text))),
                None => return Ok(None),
            }
        }
        fields.extend(asked.map(|it| ("scope", Secret::new(it))));
        let url = url(token_url, scope)?;
        Ok(Some(Grant { url, fields }))
    }

    fn key(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.url.as_str());
        for (name, value) in &self.fields {
            hash.update([0]);
            hash.update(name);
            hash.update([0]);
            hash.update(value.reveal());
        }
        hash.finalize().into()
    }

    /// The form post of RFC 6749, with the client's credentials in the form.
    fn request(&self, rotated: Option<&Secret>) -> Request {
        let pairs: Vec<String> = self
            .fields
            .iter()
            .map(|(name, value)| match (*name, rotated) {
                ("refresh_token", Some(newer)) => (name, newer),
                _ => (name, value),
            })
            .map(|(name, value)| format!("{name}={}", encode(value.reveal())))
            .collect();
        Request {
            method: Method::POST,
            url: self.url.clone(),
            headers: HeaderMap::from_iter([
                (ACCEPT, HeaderValue::from_static("application/json")),
                (
                    CONTENT_TYPE,
                    HeaderValue::from_static("application/x-www-form-urlencoded"),
                ),
            ]),
            body: Some(Body {
                bytes: pairs.join("&").into(),
                holds_secret: true,
            }),
        }
    }
}

impl Tokens {
    /// A token other than the stale one. The slot stays locked while a token is fetched, so that
    /// callers who need the same one wait for it and do not fetch their own.
    pub(super) async fn get(
        &self,
        grant: &Grant,
        stale: Option<&Secret>,
        fetch: impl AsyncFnOnce(Request) -> Result<Token, Failed>,
    ) -> Result<Secret, Failed> {
        let slot = self.slot(grant.key());
        let mut kept = slot.lock().await;
        if let Some(token) = &*kept
            && token.is_fresh()
            && stale != Some(&token.text)
        {
            return Ok(token.text.clone());
        }
        let rotated = kept.take().and_then(|it| it.refresh);
        let mut token = fetch(grant.request(rotated.as_ref())).await?;
        token.refresh = token.refresh.or(rotated);
        Ok(kept.insert(token).text.clone())
    }

    fn slot(&self, key: [u8; 32]) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST_TOKENS && !slots.contains_key(&key) {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }
}

impl Token {
    fn is_fresh(&self) -> bool {
        self.expires
            .is_none_or(|expires| Instant::now() + MARGIN < expires)
    }
}

#[derive(Deserialize)]
struct Wire {
    access_token: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

/// The token in an answer of the token endpoint.
pub(super) async fn read(response: Response) -> Result<Token, Failure> {
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::new(
            FailureKind::HttpError,
            format!("the token endpoint answered {status}"),
        )
        .with("status", status.as_u16())
        .with("reason", "token")
        .hint("check the client's id, secret and token"));
    }
    let (bytes, _) = response::bounded(response, LARGEST_ANSWER).await?;
    // What serde says could quote the token.
    let wire: Wire = serde_json::from_slice(&bytes).map_err(|_| {
        Failure::new(
            FailureKind::HttpError,
            "the token endpoint did not answer with an access token",
        )
        .with("reason", "token")
        .hint("check `token_url`")
    })?;
    Ok(Token {
        text: Secret::new(wire.access_token),
        expires: wire
            .expires_in
            .and_then(|it| Instant::now().checked_add(Duration::from_secs(it))),
        refresh: wire.refresh_token.map(Secret::new),
    })
}
