//! Requests of glee's own tools, whose URL is an argument: the same guard for every hop.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use glee_core::host::HostPattern;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Map, Value};
use url::Url;

use super::guard::Guard;
use super::redirect::{self, Hop};
use super::request::{AGENT, Body, Request};
use super::{HttpExec, header, invalid, response, timed_out};

pub(crate) struct Fetch {
    pub(crate) method: reqwest::Method,
    pub(crate) url: Url,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<String>,
    pub(crate) timeout: Duration,
    /// Kept of the body.
    pub(crate) limit: usize,
}

pub(crate) struct Fetched {
    pub(crate) status: u16,
    pub(crate) headers: Map<String, Value>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_cut: bool,
}

impl Fetched {
    /// What the body is said to be, in lower case and without parameters.
    pub(crate) fn kind(&self) -> Option<String> {
        let named = self.headers.get("content-type")?.as_str()?;
        let kind = named.split(';').next().unwrap_or_default();
        Some(kind.trim().to_ascii_lowercase())
    }

    /// The letters it is said to be written in.
    pub(crate) fn charset(&self) -> Option<String> {
        let named = self.headers.get("content-type")?.as_str()?;
        let mut given = named.split(';').skip(1).filter_map(|it| it.split_once('='));
        let (_, value) = given.find(|it| it.0.trim().eq_ignore_ascii_case("charset"))?;
        Some(value.trim().trim_matches('"').to_owned())
    }
}

/// Which hosts may be asked.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// Those of the project's list. An entry that names an address opens it, also a private one.
    listed: Network,
    others: Others,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Nobody,
    /// The host of this URL, at a public address.
    Of(Url),
    /// Everybody at a public address.
    Public,
}

impl Hosts {
    pub(crate) fn new(listed: &[HostPattern], others: Others) -> Hosts {
        Hosts {
            listed: Network::Hosts(listed.to_vec()),
            others,
        }
    }

    fn network(&self, url: &Url) -> &Network {
        if is_listed(&self.listed, url) {
            return &self.listed;
        }
        match &self.others {
            Others::Public => &Network::Public,
            Others::Of(one) if one.origin() == url.origin() || is_upgrade(one, url) => {
                &Network::Public
            }
            Others::Nobody | Others::Of(_) => &self.listed,
        }
    }
}

/// Whether it is the same host, asked over TLS: a service that wants to be asked so redirects there.
fn is_upgrade(from: &Url, to: &Url) -> bool {
    let usual = from.port().or(to.port()).is_none();
    usual && from.host() == to.host() && (from.scheme(), to.scheme()) == ("http", "https")
}

/// Whether a list of the project names the host of a URL.
pub(crate) fn is_listed(listed: &Network, url: &Url) -> bool {
    let guard = Guard {
        network: listed,
        allowed: None,
    };
    guard.check(url).is_ok()
}

/// Whether a URL may be asked at all. Names are not looked up for that.
pub(crate) fn may_be_asked(hosts: &Hosts, url: &Url) -> Result<(), Failure> {
    let guard = Guard {
        network: hosts.network(url),
        allowed: None,
    };
    guard.check(url).map(|_| ()).map_err(in_our_words)
}

/// A URL of an argument: http or https, and nothing that stands for a person.
pub(crate) fn parse(text: &str) -> Result<Url, Failure> {
    let mut url: Url = text
        .parse()
        .map_err(|err| invalid(format!("the url cannot be read: {err}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(invalid(format!(
            "`{scheme}:` URLs are not fetched, only http and https"
        )));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("a URL with a user name is not fetched")
            .hint("send an Authorization header instead"));
    }
    url.set_fragment(None);
    Ok(url)
}

impl HttpExec {
    pub(crate) async fn fetch(&self, fetch: Fetch, hosts: &Hosts) -> Result<Fetched, Failure> {
        let timeout = fetch.timeout;
        tokio::time::timeout(timeout, self.exchange_freely(fetch, hosts))
            .await
            .unwrap_or_else(|_| Err(timed_out(timeout).hint("give it more time with `timeout`")))
    }

    async fn exchange_freely(&self, fetch: Fetch, hosts: &Hosts) -> Result<Fetched, Failure> {
        let limit = fetch.limit;
        let mut hop = Hop::first(request(fetch)?);
        loop {
            let guard = Guard {
                network: hosts.network(&hop.request.url),
                allowed: self.policy.allowed_hosts.as_deref(),
            };
            let sent = self.send(&guard, &hop.request).await;
            let response = sent.map_err(|err| in_our_words(hop.explain(err).into()))?;
            match redirect::location(&response) {
                Some(location) => hop = hop.next(response.status(), &location)?,
                None => {
                    let (status, headers) = (response.status().as_u16(), response.headers());
                    let headers = response::headers(headers);
                    let (bytes, truncated) = response::bounded(response, limit).await?;
                    return Ok(Fetched {
                        status,
                        headers,
                        bytes,
                        is_cut: truncated.is_some(),
                    });
                }
            }
        }
    }
}

fn request(fetch: Fetch) -> Result<Request, Failure> {
    let mut headers = HeaderMap::new();
    for (name, text) in &fetch.headers {
        let name = header::name(name)?;
        // Whatever it says, it is meant for this host and no other.
        let value = header::value(&name, text, header::Kind::Secret)?;
        headers.insert(name, value);
    }
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(AGENT));
    Ok(Request {
        method: fetch.method,
        url: fetch.url,
        headers,
        body: fetch.body.map(|it| Body {
            bytes: Bytes::from(it),
            holds_secret: false,
        }),
    })
}

/// These tools have no manifest that somebody could change.
fn in_our_words(mut failure: Failure) -> Failure {
    if failure.kind == FailureKind::HostNotAllowed {
        let hint = failure.hint.take().unwrap_or_default();
        let ours = "`builtins.allowed_hosts` in `.glee/config.yml`";
        failure.hint = Some(hint.replace("`permissions.network.hosts`", ours));
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_agreed_to_one_host_agreed_to_no_other() {
        let url = |it: &str| it.parse::<Url>().unwrap();
        let listed = ["docs.test".parse().unwrap()];
        let hosts = Hosts::new(&listed, Others::Of(url("https://a.test/x")));
        assert_eq!(*hosts.network(&url("https://a.test/y")), Network::Public);
        for other in ["https://b.test/", "http://a.test/", "https://a.test:8443/"] {
            assert_ne!(*hosts.network(&url(other)), Network::Public, "{other}");
        }
        // The same host over TLS, and nothing else that happens to be there.
        let hosts = Hosts::new(&listed, Others::Of(url("http://a.test/x")));
        assert_eq!(*hosts.network(&url("https://a.test/x")), Network::Public);
        for other in [
            "https://b.test/",
            "https://a.test:8443/",
            "http://a.test:81/",
        ] {
            assert_ne!(*hosts.network(&url(other)), Network::Public, "{other}");
        }
        let hosts = Hosts::new(&listed, Others::Of(url("http://a.test:8080/")));
        assert_ne!(*hosts.network(&url("https://a.test/")), Network::Public);
        assert!(is_listed(
            hosts.network(&url("https://docs.test/")),
            &url("https://docs.test/")
        ));
    }
}
