//! Redirects, followed by hand: every hop is judged like the first, and what is secret stays at home.

use glee_core::outcome::{Failure, FailureKind};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, LOCATION};
use reqwest::{Method, Response, StatusCode};
use url::Url;

use super::lost::Failed;
use super::request::Request;

const MOST_HOPS: u32 = 5;

pub(super) struct Hop {
    pub(super) request: Request,
    /// Whether the chain never left the origin the author wrote; credentials go nowhere else, also
    /// not when a later hop leads back.
    pub(super) at_home: bool,
    count: u32,
    from: Option<String>,
}

/// Where a response sends the caller, if it is a redirect that can be followed.
pub(super) fn location(response: &Response) -> Option<String> {
    match response.status().as_u16() {
        301 | 302 | 303 | 307 | 308 => {
            let value = response.headers().get(LOCATION)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        }
        _ => None,
    }
}

impl Hop {
    pub(super) fn first(request: Request) -> Hop {
        Hop {
            request,
            at_home: true,
            count: 0,
            from: None,
        }
    }

    pub(super) fn next(self, status: StatusCode, location: &str) -> Result<Hop, Failure> {
        if self.count == MOST_HOPS {
            return Err(refused(format!(
                "the service redirected more than {MOST_HOPS} times"
            )));
        }
        let url = target(&self.request.url, location)?;
        let from = self.request.url.host_str().map(str::to_owned);
        let at_home = self.at_home && url.origin() == self.request.url.origin();
        let mut request = Request {
            url,
            ..self.request
        };
        if becomes_get(status, &request.method) {
            request.method = Method::GET;
            request.body = None;
            for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
                request.headers.remove(name);
            }
        }
        if !at_home {
            leave_secrets(&mut request)?;
        }
        Ok(Hop {
            request,
            at_home,
            count: self.count + 1,
            from,
        })
    }

    /// Says that it was a redirect that led to where the failure happened.
    pub(super) fn explain(&self, mut failed: Failed) -> Failed {
        if let Some(from) = &self.from {
            failed.failure.message =
                format!("redirected from `{from}`: {}", failed.failure.message);
        }
        failed
    }
}

fn target(from: &Url, location: &str) -> Result<Url, Failure> {
    let mut url = from
        .join(location)
        .map_err(|err| refused(format!("the service redirected to what is no URL: {err}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(format!(
            "the service redirected to a `{}:` URL",
            url.scheme()
        )));
    }
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err(refused("the service redirected from https to http".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(
            "the service redirected to a URL with a user name".into(),
        ));
    }
    url.set_fragment(None);
    Ok(url)
}

fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => *method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

fn leave_secrets(request: &mut Request) -> Result<(), Failure> {
    if request.body.as_ref().is_some_and(|it| it.holds_secret) {
        return Err(refused(
            "the service redirected a body that holds a secret to another host".into(),
        ));
    }
    let secret: Vec<_> = request
        .headers
        .iter()
        .filter(|(_, value)| value.is_sensitive())
        .map(|(name, _)| name.clone())
        .collect();
    for name in secret {
        request.headers.remove(name);
    }
    Ok(())
}

fn refused(message: String) -> Failure {
    Failure::new(FailureKind::HttpError, message)
        .with("reason", "redirect")
        .hint("ask the final URL directly")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_does_not_become_http() {
        let from: Url = "https://x.test/a/b".parse().unwrap();
        assert!(target(&from, "http://x.test/").is_err());
        for (location, to) in [
            ("c#f", "https://x.test/a/c"),
            ("//y.test/", "https://y.test/"),
            ("/\tc\n", "https://x.test/c"),
        ] {
            assert_eq!(target(&from, location).unwrap().as_str(), to);
        }
        let from: Url = "http://x.test/".parse().unwrap();
        assert!(target(&from, "https://x.test/").is_ok());
    }
}
