//! Fetching what stands under a URL: `web_fetch`, `fetch`, `tool_http_get`, `http_request`.
//!
//! No tool reaches a private address unless the project's list names it. Those that can send something,
//! or send to whom they like, ask a person about hosts that are not on that list.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use glee_core::host::HostPattern;
use glee_core::outcome::Failure;
use glee_core::permission::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::charset;
use super::read::Encoding;
use crate::exec::http::{Fetch, Fetched, Hosts, HttpExec, Others, is_listed, may_be_asked, parse};
use crate::native::{About, Context, NativeTool};

/// Kept of a body.
const MOST: usize = 5 << 20;
/// The longest that a caller may wait.
const LONGEST: Duration = Duration::from_secs(3600);

/// What web tools work with.
#[derive(Clone)]
pub(super) struct Web {
    pub(super) http: Arc<HttpExec>,
    pub(super) listed: Vec<HostPattern>,
}

impl Web {
    /// What is no URL, or an address that no yes opens.
    fn refuses(&self, url: &str) -> Result<(), Failure> {
        let url = parse(url)?;
        may_be_asked(&Hosts::new(&self.listed, Others::Of(url.clone())), &url)
    }

    /// Why a person must agree to ask this host.
    fn asks(&self, url: &str) -> Option<String> {
        let url = parse(url).ok()?;
        let listed = Network::Hosts(self.listed.clone());
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
        (!is_listed(&listed, &url))
            .then(|| format!("it asks `{host}{port}`, which is not among `builtins.allowed_hosts`"))
    }

    /// Those on the list, and the one that a person agreed to.
    fn as_agreed(&self, url: &Url, context: &Context<'_>) -> Hosts {
        let others = match context.is_agreed() {
            true => Others::Of(url.clone()),
            false => Others::Nobody,
        };
        Hosts::new(&self.listed, others)
    }

    /// What a caller composes, of those hosts.
    async fn fetch(&self, asked: Asked, context: Context<'_>) -> Result<Answer, Failure> {
        let url = parse(&asked.url)?;
        let hosts = self.as_agreed(&url, &context);
        let fetch = Fetch {
            method: asked.method,
            url,
            headers: asked.headers,
            body: asked.body,
            timeout: Duration::from_secs_f64(asked.timeout),
            limit: MOST,
        };
        Ok(answer(self.http.fetch(fetch, &hosts).await?))
    }

    /// A plain GET of anybody's page.
    pub(super) async fn get(&self, url: &str, limit: usize) -> Result<Fetched, Failure> {
        let fetch = Fetch {
            method: reqwest::Method::GET,
            url: parse(url)?,
            headers: BTreeMap::new(),
            body: None,
            timeout: Duration::from_secs(30),
            limit,
        };
        let hosts = Hosts::new(&self.listed, Others::Public);
        self.http.fetch(fetch, &hosts).await
    }
}

/// A request that the caller composes.
struct Asked {
    url: String,
    method: reqwest::Method,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    timeout: f64,
}

pub(super) struct WebFetch(pub(super) Web);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// An http or https URL
    url: String,
    /// How it is asked
    #[serde(default)]
    method: Method,
    /// Headers of the request
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body of the request
    #[serde(default)]
    body: Option<String>,
    /// How many seconds it may take
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 0.01, max = 3600))]
    timeout: f64,
}

fn half_a_minute() -> f64 {
    30.0
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    #[default]
    Get,
    Post,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    status: u16,
    headers: Map<String, Value>,
    body: String,
    /// How the body is given; base64 when it is no text
    encoding: Encoding,
    /// Whether it was longer than 5 MiB
    truncated: bool,
}

impl NativeTool for WebFetch {
    type Input = Input;
    type Output = Answer;

    fn about(&self) -> About {
        web(
            "web_fetch",
            "Fetch what stands under a URL, by GET or POST. A person is asked about hosts that are not on the project's list.",
        )
        .timeout(LONGEST)
    }

    fn refuses(&self, input: &Input, _: &Path) -> Result<(), Failure> {
        self.0.refuses(&input.url)
    }

    fn asks(&self, input: &Input, _: &Path) -> Option<String> {
        self.0.asks(&input.url)
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Answer, Failure> {
        let method = match input.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
        };
        let asked = Asked {
            url: input.url,
            method,
            headers: input.headers,
            body: input.body,
            timeout: input.timeout,
        };
        self.0.fetch(asked, context).await
    }
}

pub(super) struct HttpRequest(pub(super) Web);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// An http or https URL
    url: String,
    /// How it is asked
    #[serde(default)]
    method: AnyMethod,
    /// Headers of the request
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body of the request
    #[serde(default)]
    body: Option<String>,
    /// How many seconds it may take
    #[serde(default = "ten_seconds")]
    #[schemars(range(min = 0.01, max = 3600))]
    timeout: f64,
}

fn ten_seconds() -> f64 {
    10.0
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum AnyMethod {
    #[default]
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
}

impl NativeTool for HttpRequest {
    type Input = Request;
    type Output = Answer;

    fn about(&self) -> About {
        web(
            "http_request",
            "Make an HTTP request with any method. A person is asked about hosts that are not on the project's list.",
        )
        .timeout(LONGEST)
    }

    fn refuses(&self, input: &Request, _: &Path) -> Result<(), Failure> {
        self.0.refuses(&input.url)
    }

    fn asks(&self, input: &Request, _: &Path) -> Option<String> {
        self.0.asks(&input.url)
    }

    async fn run(&self, input: Request, context: Context<'_>) -> Result<Answer, Failure> {
        let method = match input.method {
            AnyMethod::Get => reqwest::Method::GET,
            AnyMethod::Post => reqwest::Method::POST,
            AnyMethod::Put => reqwest::Method::PUT,
            AnyMethod::Patch => reqwest::Method::PATCH,
            AnyMethod::Delete => reqwest::Method::DELETE,
            AnyMethod::Head => reqwest::Method::HEAD,
        };
        let asked = Asked {
            url: input.url,
            method,
            headers: input.headers,
            body: input.body,
            timeout: input.timeout,
        };
        self.0.fetch(asked, context).await
    }
}

pub(super) struct FetchUrl(pub(super) Web);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    /// An http or https URL
    url: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    status: u16,
    /// What the answer is said to be
    content_type: Option<String>,
    /// The text, JSON or XML; nothing when it is something else
    content: Option<String>,
    /// In bytes, as far as it was read
    size: u64,
    /// Whether it was longer than 5 MiB
    truncated: bool,
}

impl NativeTool for FetchUrl {
    type Input = Address;
    type Output = Page;

    fn about(&self) -> About {
        web(
            "fetch",
            "Fetch a public page: its text, JSON or XML, and only the size of anything else. At most 5 MiB, in 30 seconds.",
        )
        .needs(&["net:read"])
        .read_only()
        .timeout(Duration::from_secs(31))
    }

    async fn run(&self, input: Address, _: Context<'_>) -> Result<Page, Failure> {
        let fetched = self.0.get(&input.url, MOST).await?;
        let kind = fetched.kind();
        let size = fetched.bytes.len() as u64;
        let content = content(kind.as_deref(), &fetched);
        Ok(Page {
            status: fetched.status,
            content_type: kind,
            content,
            size,
            truncated: fetched.is_cut,
        })
    }
}

pub(super) struct ToolHttpGet(pub(super) Web);

#[derive(Serialize, JsonSchema)]
pub(super) struct Got {
    status: u16,
    body: String,
}

impl NativeTool for ToolHttpGet {
    type Input = Address;
    type Output = Got;

    fn about(&self) -> About {
        web(
            "tool_http_get",
            "Fetch a public URL and give its body as text; at most 5 MiB.",
        )
        .needs(&["net:read"])
        .read_only()
        .timeout(Duration::from_secs(31))
    }

    async fn run(&self, input: Address, _: Context<'_>) -> Result<Got, Failure> {
        let fetched = self.0.get(&input.url, MOST).await?;
        Ok(Got {
            status: fetched.status,
            body: lossy(&fetched),
        })
    }
}

fn web(name: &str, description: &str) -> About {
    About::new(name, description)
        .network(Network::Public)
        .tags(&["web"])
}

fn answer(fetched: Fetched) -> Answer {
    let (body, encoding) = match text(fetched.bytes, fetched.is_cut) {
        Ok(text) => (text, Encoding::Utf8),
        Err(bytes) => (BASE64.encode(&bytes), Encoding::Base64),
    };
    Answer {
        status: fetched.status,
        headers: fetched.headers,
        body,
        encoding,
        truncated: fetched.is_cut,
    }
}

/// What is said to be text is text, though some of its letters may be lost; of what nobody says anything,
/// only what can be nothing else.
fn content(kind: Option<&str>, fetched: &Fetched) -> Option<String> {
    match kind {
        None => text(fetched.bytes.clone(), fetched.is_cut).ok(),
        Some(kind) => is_textual(kind).then(|| lossy(fetched)),
    }
}

fn is_textual(kind: &str) -> bool {
    kind.starts_with("text/")
        || kind.ends_with("json")
        || kind.ends_with("xml")
        || kind.ends_with("javascript")
        || kind.ends_with("yaml")
}

/// The bytes as text, in the letters they are said to be in, with a sign in the place of what is none.
pub(super) fn lossy(fetched: &Fetched) -> String {
    let bytes = &fetched.bytes;
    match charset::of(fetched.charset().as_deref(), bytes) {
        Some(charset) => charset.text(bytes),
        None => text(bytes.clone(), fetched.is_cut)
            .unwrap_or_else(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// The bytes as text, without half a character at a cut; or the bytes, when they are none.
fn text(mut bytes: Vec<u8>, is_cut: bool) -> Result<String, Vec<u8>> {
    if is_cut
        && let Err(err) = std::str::from_utf8(&bytes)
        && err.error_len().is_none()
    {
        bytes.truncate(err.valid_up_to());
    }
    String::from_utf8(bytes).map_err(|err| err.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_another_charset_is_text() {
        let given = |kind: Option<&str>, bytes: &[u8]| {
            let headers = kind.map(|it| ("content-type".to_owned(), it.into()));
            let fetched = Fetched {
                status: 200,
                headers: headers.into_iter().collect(),
                bytes: bytes.to_vec(),
                is_cut: false,
            };
            content(fetched.kind().as_deref(), &fetched)
        };
        let latin = b"caf\xe9 \x80";
        for charset in ["iso-8859-1", "\"Windows-1252\"", "latin1"] {
            let kind = format!("text/html; Charset={charset}");
            assert_eq!(
                given(Some(&kind), latin).as_deref(),
                Some("café €"),
                "{charset}"
            );
        }
        let wide = [0x68, 0, 0xe9, 0, 0x3d, 0xd8, 0x00, 0xde];
        assert_eq!(
            given(Some("text/plain; charset=utf-16le"), &wide).as_deref(),
            Some("hé😀")
        );
        let marked = [&[0xfe, 0xff, 0, 0x68][..], &[0, 0xe9]].concat();
        assert_eq!(given(Some("text/plain"), &marked).as_deref(), Some("hé"));
        let page = b"<html><head><meta charset='iso-8859-1'></head>caf\xe9";
        assert!(given(Some("text/html"), page).unwrap().ends_with("café"));
        assert_eq!(
            given(Some("text/html"), b"caf\xe9").as_deref(),
            Some("caf\u{fffd}")
        );
        assert_eq!(
            given(Some("text/html; charset=utf-8"), "é".as_bytes()).as_deref(),
            Some("é")
        );
        assert_eq!(given(Some("image/png"), latin), None);
        assert_eq!(given(None, latin), None);
        assert_eq!(given(None, b"x").as_deref(), Some("x"));
    }
}
