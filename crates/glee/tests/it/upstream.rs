//! A real server on a free local port, for tools to talk to. It remembers every request it got.
//!
//! | route | answer |
//! |---|---|
//! | `/echo` (and anything else) | the request as JSON |
//! | `/status/{code}` | that status, with `{"status": code}` |
//! | `/redirect?to=URL&code=302` | a redirect |
//! | `/slow` | nothing, ever |
//! | `/drip` | one byte after the other, without end |
//! | `/big?bytes=N&length=1` | N bytes of `x`, with their length told or not |
//! | `/gzip?bytes=N` | N bytes of `x`, compressed |
//! | `/cut` | a body that breaks off |
//! | `/headers?count=N` | N headers |
//! | `/flaky?fail=N&code=503&after=S` | `code` (with `Retry-After`) N times, then 200 |
//! | `/token?expires_in=S` | an OAuth token: `token-1`, then `token-2`, … |
//! | `/guarded?accept=TOKEN` | 401 unless the bearer token is this one; echoes it |
//! | `/web`, `/search`, `/api/chat.postMessage` | what Brave, SearXNG and Slack would say |
//! | `/v1/chat/completions` | what a model would say |
//! | `/page`, `/picture` | a page in HTML, and some bytes of a picture |

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderName, Response, StatusCode, header};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const PAGE: &str = r#"<!doctype html><html><head><title>A page</title><script>var x = "<p>no</p>";</script></head>
<body><h1 id="top">Hello <em>there</em></h1><p>One.<p>Two &amp; three.
<ul><li><a class="more" href="/next">Next</a></li></ul></body></html>"#;

/// Stops when dropped.
pub(crate) struct Upstream {
    address: SocketAddr,
    memory: Arc<Memory>,
    _stop: oneshot::Sender<()>,
}

/// One request as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// As sent, still encoded.
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

#[derive(Default)]
struct Memory {
    seen: Mutex<Vec<Seen>>,
    counts: Mutex<HashMap<String, u32>>,
}

impl Upstream {
    /// Serves on a thread of its own, so that a test needs no runtime and cannot starve it.
    pub(crate) fn start() -> Upstream {
        let memory = Arc::new(Memory::default());
        let (stop, stopped) = oneshot::channel();
        let (started, start) = std::sync::mpsc::channel();
        let served = memory.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                started.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(answer).with_state(served);
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Upstream {
            address: start.recv().unwrap(),
            memory,
            _stop: stop,
        }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.memory.seen.lock().unwrap().clone()
    }
}

async fn answer(State(memory): State<Arc<Memory>>, request: Request) -> Response<Body> {
    let seen = Seen::read(request).await;
    memory.seen.lock().unwrap().push(seen.clone());
    let query = seen.pairs();
    let text = |key: &str| query.get(key).cloned().unwrap_or_default();
    let number = |key: &str| text(key).parse::<u64>().ok();
    let code = || StatusCode::from_u16(number("code").unwrap_or(302) as u16).unwrap();
    let path: Vec<&str> = seen.path.trim_start_matches('/').split('/').collect();
    match path[..] {
        ["status", code, ..] => {
            let code: u16 = code.parse().unwrap();
            let status = StatusCode::from_u16(code).unwrap();
            reply(status, json!({ "status": code }))
        }
        ["redirect"] => Response::builder()
            .status(code())
            .header(header::LOCATION, text("to"))
            .body(Body::empty())
            .unwrap(),
        ["slow"] => std::future::pending().await,
        ["drip"] => Response::new(drip()),
        ["big"] => big(number("bytes").unwrap(), !text("length").is_empty()),
        ["gzip"] => gzip(number("bytes").unwrap()),
        ["cut"] => Response::new(cut()),
        ["headers"] => headers(number("count").unwrap()),
        ["flaky"] => {
            let count = memory.count(&seen.query);
            if u64::from(count) > number("fail").unwrap() {
                reply(StatusCode::OK, json!({ "attempts": count }))
            } else {
                let mut response = reply(code(), json!({ "attempts": count }));
                if let Ok(after) = text("after").parse() {
                    response.headers_mut().insert(header::RETRY_AFTER, after);
                }
                response
            }
        }
        ["token"] => {
            let token = format!("access-token-{}", memory.count("token"));
            let mut answer = json!({ "access_token": token, "token_type": "bearer" });
            if let Some(seconds) = number("expires_in") {
                answer["expires_in"] = seconds.into();
            }
            reply(StatusCode::OK, answer)
        }
        ["guarded"] => {
            let given = seen.headers.get("authorization").cloned();
            let expected = format!("Bearer {}", text("accept"));
            if given.as_deref() == Some(&expected) {
                reply(StatusCode::OK, json!({ "authorization": given }))
            } else {
                reply(StatusCode::UNAUTHORIZED, json!({ "authorization": given }))
            }
        }
        ["web"] => reply(
            StatusCode::OK,
            json!({"web": {"results": [
                {"title": "One", "url": "https://one.test", "description": "first", "age": 1},
                {"title": "Two", "url": "https://two.test", "description": "second", "age": 2},
            ]}}),
        ),
        ["search"] => reply(
            StatusCode::OK,
            json!({"query": text("q"), "results": [
                {"title": "One", "url": "https://one.test", "content": "first", "engine": "x"},
            ]}),
        ),
        ["v1", "chat", "completions"] => reply(
            StatusCode::OK,
            json!({"choices": [{"message": {"role": "assistant", "content": "```python\ndef add(a, b):\n    return a + b\n```"}}]}),
        ),
        ["page"] => Response::builder()
            .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
            .body(Body::from(PAGE))
            .unwrap(),
        ["picture"] => Response::builder()
            .header(header::CONTENT_TYPE, "image/png")
            .body(Body::from(&b"\x89PNG\r\n\x1a\n\0\0"[..]))
            .unwrap(),
        ["api", "chat.postMessage"] => reply(
            StatusCode::OK,
            json!({"ok": true, "ts": "1234567890.123456"}),
        ),
        _ => reply(StatusCode::OK, seen.json()),
    }
}

impl Seen {
    async fn read(request: Request) -> Seen {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, 64 << 20).await.unwrap_or_default();
        Seen {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    (name.to_string(), value.into_owned())
                })
                .collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// The decoded query.
    pub(crate) fn pairs(&self) -> HashMap<String, String> {
        let uri = format!("/?{}", self.query).parse().unwrap();
        Query::try_from_uri(&uri).map_or_else(|_| HashMap::new(), |it| it.0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn json(&self) -> Value {
        json!({
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": self.headers,
            "body": self.body,
        })
    }
}

impl Memory {
    fn count(&self, what: &str) -> u32 {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }
}

fn reply(status: StatusCode, value: Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}

fn drip() -> Body {
    let drops = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Some((Ok::<_, std::io::Error>("x"), ()))
    });
    Body::from_stream(drops)
}

/// The server waits once in between, and sends what it has before it breaks off.
fn cut() -> Body {
    let begin = stream::once(async { Ok("begin") });
    let end = stream::once(async {
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut"))
    });
    Body::from_stream(begin.chain(end))
}

fn big(bytes: u64, tell_length: bool) -> Response<Body> {
    const CHUNK: u64 = 64 << 10;
    let chunks = stream::iter(0..bytes.div_ceil(CHUNK)).map(move |at| {
        let length = CHUNK.min(bytes - at * CHUNK);
        Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; length as usize]))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    if tell_length {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, bytes.into());
    }
    response
}

fn gzip(bytes: u64) -> Response<Body> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let chunk = vec![b'x'; 1 << 20];
    let mut left = bytes as usize;
    while left > 0 {
        let length = left.min(chunk.len());
        encoder.write_all(&chunk[..length]).unwrap();
        left -= length;
    }
    Response::builder()
        .header(header::CONTENT_ENCODING, "gzip")
        .body(Body::from(encoder.finish().unwrap()))
        .unwrap()
}

fn headers(count: u64) -> Response<Body> {
    let mut response = Response::new(Body::from("many"));
    for at in 0..count {
        let name: HeaderName = format!("x-{at}").parse().unwrap();
        response.headers_mut().insert(name, at.into());
    }
    response
}
