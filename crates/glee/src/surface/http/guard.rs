//! Who comes in: nobody through a web page or a name of somebody else's, and nobody without a token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::store::tokens::{Tokens, hash};
use crate::surface::principal::{Principal, Still};
use crate::surface::rest::OPEN;

/// How long a revoked token may still be good for.
const FRESH: Duration = Duration::from_secs(1);

pub struct Guard {
    hosts: Vec<String>,
    admission: Admission,
    known: ArcSwap<Known>,
}

/// Hashes of tokens and whose they are, as they were a moment ago.
struct Known {
    at: Instant,
    principals: HashMap<String, Principal>,
}

impl Known {
    /// Tokens that cannot be read admit nobody.
    fn read(admission: &Admission) -> Known {
        let listed = match admission {
            Admission::Token(tokens) => tokens.list().unwrap_or_default(),
            Admission::Anyone(_) => Vec::new(),
        };
        Known {
            at: Instant::now(),
            principals: listed
                .into_iter()
                .map(|it| {
                    let principal = Principal {
                        name: it.name,
                        scopes: it.scopes,
                    };
                    (it.hash, principal)
                })
                .collect(),
        }
    }
}

/// What a client must show.
pub enum Admission {
    Token(Tokens),
    Anyone(Principal),
}

impl Guard {
    pub fn new(hosts: Vec<String>, admission: Admission) -> Guard {
        Guard {
            known: ArcSwap::from_pointee(Known::read(&admission)),
            hosts,
            admission,
        }
    }

    fn known(&self) -> Arc<Known> {
        let known = self.known.load_full();
        if known.at.elapsed() < FRESH {
            return known;
        }
        let known = Arc::new(Known::read(&self.admission));
        self.known.store(known.clone());
        known
    }

    /// A page that resolves its own name to this machine still sends its own name.
    fn is_ours(&self, authority: &str) -> bool {
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
            _ => authority,
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = bare.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
        is_here || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Response> {
        let said = headers.get_all(header::HOST).iter();
        let said = said.map(|it| it.to_str().unwrap_or_default());
        let mut named = said.chain(uri.authority().map(|it| it.as_str())).peekable();
        match named.peek().is_some() && named.all(|it| self.is_ours(it)) {
            true => Ok(()),
            false => Err(refuse(
                StatusCode::FORBIDDEN,
                "this server is not called that; name it with `glee serve --host NAME`",
            )),
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Response> {
        let is_ours = |origin: &header::HeaderValue| {
            let uri = origin.to_str().ok().and_then(|it| it.parse::<Uri>().ok());
            uri.is_some_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.authority().is_some_and(|it| self.is_ours(it.as_str()))
            })
        };
        match headers.get_all(header::ORIGIN).iter().all(is_ours) {
            true => Ok(()),
            false => Err(refuse(
                StatusCode::FORBIDDEN,
                "pages of other origins may not call this server",
            )),
        }
    }

    /// Whether somebody would be let in again, to do the same.
    fn still_knows(&self, principal: &Principal) -> bool {
        match &self.admission {
            Admission::Anyone(_) => true,
            Admission::Token(_) => self.known().principals.values().any(|it| it == principal),
        }
    }

    /// Leaves on the request who made it.
    pub(super) fn admit<B>(self: &Arc<Guard>, request: &mut Request<B>) -> Result<(), Response> {
        self.check_host(request.uri(), request.headers())?;
        self.check_origin(request.headers())?;
        if !OPEN.contains(&request.uri().path()) {
            let principal = self.principal(request.headers())?;
            let (asked, same) = (self.clone(), principal.clone());
            let still = move || asked.still_knows(&same);
            request.extensions_mut().insert(Still(Arc::new(still)));
            request.extensions_mut().insert(principal);
        }
        // Nothing further in has a use for it, and what nobody has nobody can leak.
        request.headers_mut().remove(header::AUTHORIZATION);
        Ok(())
    }

    fn principal(&self, headers: &HeaderMap) -> Result<Principal, Response> {
        if let Admission::Anyone(principal) = &self.admission {
            return Ok(principal.clone());
        }
        let shown = headers
            .get(header::AUTHORIZATION)
            .and_then(|it| it.to_str().ok())
            .and_then(|it| it.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let known = shown.and_then(|it| self.known().principals.get(&hash(it)).cloned());
        known.ok_or_else(|| {
            let mut response = refuse(
                StatusCode::UNAUTHORIZED,
                "send `Authorization: Bearer TOKEN`; `glee serve` says where the token is",
            );
            let scheme = header::HeaderValue::from_static("Bearer realm=\"glee\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
            response
        })
    }
}

pub(super) fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        let guard = Guard::new(
            vec!["tools.example".into()],
            Admission::Anyone(Principal::usual("anyone")),
        );
        for ours in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]:8080",
            "127.1.2.3",
            "tools.example:443",
        ] {
            assert!(guard.is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "0.0.0.0",
            "tools.example.evil",
            "localhost:80:evil",
        ] {
            assert!(!guard.is_ours(other), "{other}");
        }
    }
}
