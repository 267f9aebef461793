//! Searching the web with a provider of the project's choice: `web_search`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::{Network, SecretNeed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::{Provider, Search};
use crate::exec::http::{Fetch, Hosts, HttpExec, Others};
use crate::native::{About, Context, NativeTool};

/// The secret that opens Brave.
const KEY: &str = "BRAVE_API_KEY";

pub(super) struct WebSearch(pub(super) Searching);

pub(super) struct Searching {
    pub(super) http: Arc<HttpExec>,
    pub(super) with: Option<Search>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Input {
    /// What to search for
    #[schemars(length(min = 1, max = 2000))]
    query: String,
    /// How many results to give
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    num_results: u32,
}

fn five() -> u32 {
    5
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    results: Vec<Found>,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    title: String,
    url: String,
    snippet: String,
}

impl NativeTool for WebSearch {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        let about = About::new("web_search", "Search the web.")
            .needs(&["net:read"])
            .tags(&["web"])
            .read_only();
        match &self.0.with {
            None => about,
            Some(search) => {
                let about = about.network(Network::Hosts(host_of(&search.url)));
                match search.provider {
                    Provider::Brave => about.secret(KEY, SecretNeed::Required),
                    Provider::Searxng => about,
                }
            }
        }
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let search = self.0.with.as_ref().ok_or_else(|| {
            Failure::new(
                FailureKind::Disabled,
                "`web_search` has nobody to search with",
            )
            .hint("set `builtins.search` in .glee/config.yml: `{provider: brave}`, or `{provider: searxng, url: …}`")
        })?;
        let (url, headers) = match search.provider {
            Provider::Brave => brave(search, &input, &context)?,
            Provider::Searxng => (searxng(search, &input), BTreeMap::new()),
        };
        let hosts = Hosts::new(&host_of(&search.url), Others::Nobody);
        let fetch = Fetch {
            method: reqwest::Method::GET,
            url,
            headers,
            body: None,
            timeout: Duration::from_secs(20),
            limit: 2 << 20,
        };
        let fetched = self.0.http.fetch(fetch, &hosts).await?;
        let (list, snippet) = match search.provider {
            Provider::Brave => ("/web/results", "description"),
            Provider::Searxng => ("/results", "content"),
        };
        let answer: Value = match fetched.status {
            200 => serde_json::from_slice(&fetched.bytes).map_err(|_| unusable("is no JSON"))?,
            status => return Err(unusable(&format!("is {status}")).with("status", status)),
        };
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let found = answer.pointer(list).and_then(Value::as_array);
        let found = found.into_iter().flatten().map(|it| Found {
            title: text(it, "title"),
            url: text(it, "url"),
            snippet: text(it, snippet),
        });
        Ok(Output {
            results: found.take(input.num_results as usize).collect(),
        })
    }
}

type Asked = (Url, BTreeMap<String, String>);

fn brave(search: &Search, input: &Input, context: &Context<'_>) -> Result<Asked, Failure> {
    let key = context
        .secret(KEY)
        .ok_or_else(|| Failure::new(FailureKind::SecretNotFound, format!("{KEY} is not set")))?;
    let mut url = search.url.clone();
    url.query_pairs_mut()
        .append_pair("q", &input.query)
        .append_pair("count", &input.num_results.to_string());
    let headers = [
        ("accept", "application/json"),
        ("x-subscription-token", key.reveal()),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok((url, headers.into()))
}

/// Its URL may be that of the page, or that of the search itself.
fn searxng(search: &Search, input: &Input) -> Url {
    let mut url = search.url.clone();
    if !url.path().ends_with("/search") {
        let path = format!("{}/search", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    url.query_pairs_mut()
        .append_pair("q", &input.query)
        .append_pair("format", "json");
    url
}

/// The project itself has named it, so that it may be where nobody else may look.
pub(super) fn host_of(url: &Url) -> Vec<HostPattern> {
    let port = url.port_or_known_default().unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{port}").parse().into_iter().collect()
}

fn unusable(why: &str) -> Failure {
    let message = format!("the answer of the search {why}");
    Failure::new(FailureKind::HttpError, message)
        .hint("look at `builtins.search` in .glee/config.yml, and at the key")
}
