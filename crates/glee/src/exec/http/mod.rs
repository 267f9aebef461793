//! Runs http tools inside glee: fill the request, judge the host, send, follow, retry, read.
//!
//! The guard of this executor is not a sandbox but the policy on hosts: a URL is judged by name
//! before anything happens ([`guard`]), the address that is really dialled is judged again
//! ([`dial`]), and so is every hop of a redirect. No proxy from the environment comes in between.

mod auth;
mod content;
mod dial;
mod fetch;
mod guard;
mod header;
mod lost;
mod oauth;
mod redirect;
mod request;
mod response;
mod retry;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::host::HostPattern;
use glee_core::model::{Http, OnMismatch, Redirects, ToolSpec};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::secret::Secret;
use glee_core::shape::{Body, Raw};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use auth::Credentials;
use dial::{Clients, SystemLookup};
pub(crate) use dial::{engine_client, own_client};
pub(crate) use fetch::{Fetch, Fetched, Hosts, Others, is_listed, may_be_asked, parse};
pub(super) use guard::{Guard, Refused, is_among};
use lost::Failed;
use oauth::Tokens;
use redirect::Hop;
use request::Request;

/// What the project's configuration says about http tools.
#[derive(Clone, Debug, Default)]
pub struct HttpPolicy {
    /// When given, every http tool is also held to this list, whatever its own permissions say.
    pub allowed_hosts: Option<Vec<HostPattern>>,
}

/// Runs http tools. Holds pooled connections and OAuth tokens; nothing is built before first use.
pub struct HttpExec {
    policy: HttpPolicy,
    clients: Clients,
    tokens: Tokens,
}

impl HttpExec {
    pub fn new(policy: HttpPolicy) -> HttpExec {
        HttpExec {
            policy,
            clients: Clients::new(Arc::new(SystemLookup)),
            tokens: Tokens::default(),
        }
    }

    /// One deadline covers everything: names, connections, pauses, retries, hops and the body.
    pub async fn run(&self, http: &Http, call: &Admitted) -> Result<Raw, Failure> {
        tokio::select! {
            // What is cancelled before it began is not begun.
            biased;
            () = call.cancel().cancelled() => Err(cancelled()),
            result = tokio::time::timeout(call.timeout(), self.exchange(http, call)) => {
                let result = result.unwrap_or_else(|_| Err(timed_out(call.timeout())));
                let result = result.map_err(|it| in_words_of(call.spec(), it));
                or_nothing(result, call.spec().outputs.on_mismatch)
            }
        }
    }

    /// The request as it would be sent, for those who only want to look.
    pub fn preview(http: &Http, call: &Admitted) -> Result<Value, Failure> {
        let scope = call.scope();
        let mut request = Request::fill(http, &scope)?;
        if let Some(credentials) = Credentials::fill(http.auth.as_ref(), &scope)? {
            credentials.show(&mut request);
        }
        Ok(request.show())
    }

    async fn exchange(&self, http: &Http, call: &Admitted) -> Result<Raw, Failure> {
        let began = Instant::now();
        let errand = Errand::new(http, call, &self.policy)?;
        let mut attempt = 0;
        loop {
            let answer = self.ask(&errand).await;
            let left = call.timeout().saturating_sub(began.elapsed());
            match errand.retry.pause(attempt, left, &answer) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return response::read(http, call, answer?).await,
            }
            attempt += 1;
        }
    }

    /// One attempt. A token that is no longer taken is replaced once: the server has refused the
    /// request, so sending it again is not doing it twice.
    async fn ask(&self, errand: &Errand<'_>) -> Result<Answer, Failed> {
        let token = self.token(errand, None).await?;
        let response = self.follow(errand, token.as_ref()).await?;
        let refused = response.status() == StatusCode::UNAUTHORIZED
            && !response::is_success(errand.http, response.status());
        match token {
            Some(stale) if refused => {
                let token = self.token(errand, Some(&stale)).await?;
                let response = self.follow(errand, token.as_ref()).await?;
                Ok(Answer { response, token })
            }
            token => Ok(Answer { response, token }),
        }
    }

    async fn token(
        &self,
        errand: &Errand<'_>,
        stale: Option<&Secret>,
    ) -> Result<Option<Secret>, Failed> {
        let Some(Credentials::OAuth2(grant)) = &errand.credentials else {
            return Ok(None);
        };
        // Also when a token is at hand, or what a tool may do would depend on who called before it.
        errand.guard.check(&grant.url)?;
        let fetch = async |request: Request| {
            let response = self.send(&errand.guard, &request).await?;
            oauth::read(response).await.map_err(Failed::from)
        };
        self.tokens.get(grant, stale, fetch).await.map(Some)
    }

    async fn follow(
        &self,
        errand: &Errand<'_>,
        token: Option<&Secret>,
    ) -> Result<Response, Failed> {
        let mut hop = Hop::first(errand.request.clone());
        loop {
            let mut request = hop.request.clone();
            if hop.at_home
                && let Some(credentials) = &errand.credentials
            {
                credentials.apply(&mut request, token)?;
            }
            let response = self
                .send(&errand.guard, &request)
                .await
                .map_err(|err| hop.explain(err))?;
            let followed = errand.http.redirects == Redirects::Follow
                && !response::is_success(errand.http, response.status());
            match redirect::location(&response) {
                Some(location) if followed => hop = hop.next(response.status(), &location)?,
                _ => return Ok(response),
            }
        }
    }

    /// The only place where a request leaves glee.
    async fn send(&self, guard: &Guard<'_>, request: &Request) -> Result<Response, Failed> {
        let reach = guard.check(&request.url)?;
        let client = self.clients.get(&reach)?;
        let mut sending = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            sending = sending.body(body.bytes.clone());
        }
        sending
            .send()
            .await
            .map_err(|err| lost::failed(err, &request.url))
    }
}

/// Everything one call needs to make its request, again if it must.
struct Errand<'a> {
    http: &'a Http,
    request: Request,
    credentials: Option<Credentials>,
    guard: Guard<'a>,
    retry: retry::Plan<'a>,
}

impl<'a> Errand<'a> {
    fn new(
        http: &'a Http,
        call: &'a Admitted,
        policy: &'a HttpPolicy,
    ) -> Result<Errand<'a>, Failure> {
        // One scope for all templates, since what may be filled in is bounded per scope.
        let scope = call.scope();
        let request = Request::fill(http, &scope)?;
        let sent = request.body.as_ref().map_or(0, |it| it.bytes.len());
        if let Some(most) = call.spec().limits.sent_bytes.filter(|it| sent > *it) {
            let why = format!("the request would send {sent} bytes, and {most} are the most");
            return Err(invalid(why).with("limit", "sent_bytes"));
        }
        Ok(Errand {
            http,
            request,
            credentials: Credentials::fill(http.auth.as_ref(), &scope)?,
            guard: Guard {
                network: &call.grant().network,
                allowed: policy.allowed_hosts.as_deref(),
            },
            retry: retry::Plan::new(http, &call.spec().annotations),
        })
    }
}

/// A response, and the token that was used to get it: an upstream may echo it.
struct Answer {
    response: Response,
    token: Option<Secret>,
}

/// An author may do without the answer of a service that fails. What glee itself refuses stays refused.
fn or_nothing(result: Result<Raw, Failure>, on_mismatch: OnMismatch) -> Result<Raw, Failure> {
    match result {
        Err(failure)
            if on_mismatch == OnMismatch::Empty
                && matches!(failure.kind, FailureKind::HttpError | FailureKind::Timeout) =>
        {
            Ok(Body::Nothing(failure.message).into())
        }
        result => result,
    }
}

/// What can be changed has other names in a bundle than in a manifest.
fn in_words_of(spec: &ToolSpec, mut failure: Failure) -> Failure {
    if !spec.is_of_bundle() {
        return failure;
    }
    failure.hint = failure.hint.map(|hint| {
        hint.replace(
            "`permissions.network.hosts`",
            "`bundles.allowed_hosts` in `.glee/config.yml`",
        )
        .replace("set `redirects: follow` under `exec.http`, or ", "")
        .replace("`timeout_ms`", "`timeoutMs`")
        .replace(" in the manifest", "")
    });
    failure
}

fn cancelled() -> Failure {
    Failure::new(FailureKind::Cancelled, "the caller cancelled the request")
}

fn timed_out(limit: Duration) -> Failure {
    Failure::new(
        FailureKind::Timeout,
        format!("no complete answer after {} ms", limit.as_millis()),
    )
    .hint("raise `timeout_ms` if the service is slow")
    .retryable()
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidInput, message)
}
