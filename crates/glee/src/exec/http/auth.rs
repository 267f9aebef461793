//! How a request proves who sends it.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64, HEXLOWER};
use glee_core::model::{Auth, KeyPlace};
use glee_core::outcome::Failure;
use glee_core::secret::Secret;
use glee_core::template::{Scope, Template};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Position;

use super::oauth::Grant;
use super::request::{Request, too_large};
use super::{content, header, invalid};

/// Filled, and ready to be put on every request that stays at home.
pub(super) enum Credentials {
    Header(HeaderName, HeaderValue),
    /// An encoded `key=value`.
    Query(String),
    Hmac {
        key: Secret,
        header: HeaderName,
        timestamp_header: HeaderName,
    },
    OAuth2(Grant),
}

impl Credentials {
    /// `None` when the tool has no auth, or when an optional secret it is made of is absent.
    pub(super) fn fill(
        auth: Option<&Auth>,
        scope: &Scope<'_>,
    ) -> Result<Option<Credentials>, Failure> {
        let Some(auth) = auth else { return Ok(None) };
        let text = |template: &Template| template.text(scope).map_err(too_large);
        Ok(match auth {
            Auth::Bearer { token } => match text(token)? {
                Some(token) => Some(authorization(&format!("Bearer {token}"))?),
                None => None,
            },
            Auth::Basic { username, password } => match (text(username)?, text(password)?) {
                (Some(username), Some(password)) => Some(basic(&username, &password)?),
                _ => None,
            },
            Auth::ApiKey { place, name, value } => match text(value)? {
                Some(value) => Some(api_key(*place, name, value)?),
                None => None,
            },
            Auth::Hmac {
                secret,
                header: name,
                timestamp_header,
            } => match text(secret)? {
                Some(key) => Some(Credentials::Hmac {
                    key: Secret::new(key),
                    header: header::name(name)?,
                    timestamp_header: header::name(timestamp_header)?,
                }),
                None => None,
            },
            Auth::OAuth2 {
                token_url,
                grant,
                client_id,
                client_secret,
                scope: asked,
            } => Grant::fill(
                token_url,
                grant,
                client_id,
                client_secret.as_ref(),
                asked.as_deref(),
                scope,
            )?
            .map(Credentials::OAuth2),
        })
    }

    pub(super) fn apply(
        &self,
        request: &mut Request,
        token: Option<&Secret>,
    ) -> Result<(), Failure> {
        match self {
            Credentials::Header(name, value) => {
                request.headers.insert(name, value.clone());
            }
            Credentials::Query(pair) => request.add_query(pair),
            Credentials::Hmac {
                key,
                header: name,
                timestamp_header,
            } => {
                let timestamp = unix_seconds().to_string();
                let signature = sign(key, request, &timestamp)?;
                for (name, text) in [(timestamp_header, timestamp), (name, signature)] {
                    let value = header::value(name, &text, header::Kind::Secret)?;
                    request.headers.insert(name, value);
                }
            }
            Credentials::OAuth2(_) => {
                if let Some(token) = token {
                    let text = format!("Bearer {}", token.reveal());
                    let value = header::value(&AUTHORIZATION, &text, header::Kind::Secret)?;
                    request.headers.insert(AUTHORIZATION, value);
                }
            }
        }
        Ok(())
    }

    /// Puts masks where `apply` puts what exists only once a request is sent.
    pub(super) fn show(&self, request: &mut Request) {
        let mut mask = |name: &HeaderName, text: &'static str| {
            request.headers.insert(name, HeaderValue::from_static(text))
        };
        match self {
            Credentials::Header(name, value) => {
                request.headers.insert(name, value.clone());
            }
            Credentials::Query(pair) => request.add_query(pair),
            Credentials::Hmac {
                header,
                timestamp_header,
                ..
            } => {
                mask(timestamp_header, "<unix seconds>");
                mask(header, "<HMAC-SHA256 signature>");
            }
            Credentials::OAuth2(_) => {
                mask(&AUTHORIZATION, "Bearer <access token>");
            }
        }
    }
}

/// The signature is the lower-case hex HMAC-SHA256, under the shared key, of four lines joined by
/// `\n`: the method; the path with its query, as sent; the unix time in seconds, as in the timestamp
/// header; and the lower-case hex SHA-256 of the body (of nothing, when there is none).
fn sign(key: &Secret, request: &Request, timestamp: &str) -> Result<String, Failure> {
    let body = request.body.as_ref().map_or(&[][..], |it| &it.bytes);
    let canonical = format!(
        "{}\n{}\n{timestamp}\n{}",
        request.method,
        &request.url[Position::BeforePath..Position::AfterQuery],
        HEXLOWER.encode(&Sha256::digest(body)),
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key.reveal().as_bytes())
        .map_err(|_| invalid("the HMAC key cannot be used"))?;
    mac.update(canonical.as_bytes());
    Ok(HEXLOWER.encode(&mac.finalize().into_bytes()))
}

fn basic(username: &str, password: &str) -> Result<Credentials, Failure> {
    if username.contains(':') {
        return Err(invalid(
            "the user name of basic auth holds a `:`, where the password would begin",
        ));
    }
    let pair = BASE64.encode(format!("{username}:{password}").as_bytes());
    authorization(&format!("Basic {pair}"))
}

fn api_key(place: KeyPlace, name: &str, value: String) -> Result<Credentials, Failure> {
    match place {
        KeyPlace::Header => {
            let name = header::name(name)?;
            let value = header::value(&name, &value, header::Kind::Secret)?;
            Ok(Credentials::Header(name, value))
        }
        KeyPlace::Query => Ok(Credentials::Query(
            content::pairs(name, Value::String(value)).join("&"),
        )),
    }
}

fn authorization(text: &str) -> Result<Credentials, Failure> {
    let value = header::value(&AUTHORIZATION, text, header::Kind::Secret)?;
    Ok(Credentials::Header(AUTHORIZATION, value))
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
