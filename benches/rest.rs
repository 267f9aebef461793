//! What the server costs: calls over REST beside a bare server, http tools beside a bare client, lists and searches
//! over many tools. `cargo bench --bench rest` prints a table; each ratio is of one run, taken turn about.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop where it stands"
)]

mod echo;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::routing::{get, post};
use axum::{Json, Router};
use glee::app::{App, Call, Wiring};
use glee::approve::absent::Absent;
use glee::project::Project;
use glee::surface::http::{self, Settings};
use glee::surface::mcp::Server;
use glee::surface::principal::Principal;
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use echo::Echo;

/// As glee's own binary has it, and every server here.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 20;
const CALLS: usize = 200;

fn main() {
    glee::run_if_launcher();
    println!("{:40} {:>10} {:>10}   ratio", "what", "glee", "bare");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        echoes().await;
        proxies().await;
        println!("{:40} {:>10} {:>10}", "what", "p50", "p99");
        for count in [10, 1_000, 10_000] {
            pages(count).await;
        }
    });
}

/// A function of this program over REST, beside a server that only says back what it hears.
async fn echoes() {
    let project = tempfile::tempdir().unwrap();
    let ours = serve(project.path()).await;
    let bare = Router::new().route(
        "/run/echo",
        post(|Json(said): Json<Value>| async { Json(said) }),
    );
    let bare = listen(bare).await;
    for at_once in [1, 16] {
        let (mut through, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let request = r#"{"text": "hello"}"#;
            through.push(exchange(ours, at_once, "POST /run/echo", request).await);
            direct.push(exchange(bare, at_once, "POST /run/echo", request).await);
        }
        row(
            &format!("echo over REST, {at_once} at once"),
            middle(through),
            middle(direct),
            1.5,
        );
    }
}

/// An http tool, beside a loop of the client that it is made with.
async fn proxies() {
    let upstream = Router::new().route(
        "/",
        get(|| async { Json(serde_json::json!({"temperature": 7, "unit": "C"})) }),
    );
    let upstream = listen(upstream).await;
    let project = tempfile::tempdir().unwrap();
    let manifest = format!(
        "name: ask
description: Asks
kind: http
version: 1
inputs: {{schema: {{type: object, additionalProperties: false}}}}
outputs: {{format: json}}
exec: {{http: {{method: GET, url: 'http://{upstream}/'}}}}
permissions: {{network: {{hosts: ['{upstream}']}}}}
approval: {{required: false}}
"
    );
    write(project.path(), "ask", &manifest);
    let app = Arc::new(open(project.path()));
    let client = bare_client();
    over_rest(project.path(), upstream, client.clone()).await;
    for at_once in [1, 16] {
        let (mut through, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            through.push(
                timed(at_once, || {
                    let app = app.clone();
                    async move {
                        for _ in 0..CALLS {
                            let outcome = app.call(call("ask")).await;
                            assert_eq!(outcome.result.unwrap().value["temperature"], 7);
                        }
                    }
                })
                .await,
            );
            direct.push(
                timed(at_once, || {
                    let client = client.clone();
                    async move {
                        for _ in 0..CALLS {
                            let response = client
                                .get(format!("http://{upstream}/"))
                                .send()
                                .await
                                .unwrap();
                            let value: Value =
                                serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
                            assert_eq!(value["temperature"], 7);
                        }
                    }
                })
                .await,
            );
        }
        row(
            &format!("http tool, {at_once} at once"),
            middle(through),
            middle(direct),
            1.3,
        );
    }
}

/// The same tool behind the server, beside a server that only asks.
async fn over_rest(project: &Path, upstream: SocketAddr, client: reqwest::Client) {
    let ours = serve(project).await;
    let ask = move || {
        let client = client.clone();
        async move {
            let asked = client.get(format!("http://{upstream}/")).send().await;
            let bytes = asked.unwrap().bytes().await.unwrap();
            Json(serde_json::from_slice::<Value>(&bytes).unwrap())
        }
    };
    let bare = listen(Router::new().route("/run/ask", post(ask))).await;
    for at_once in [1, 16] {
        let (mut through, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            through.push(exchange(ours, at_once, "POST /run/ask", "{}").await);
            direct.push(exchange(bare, at_once, "POST /run/ask", "{}").await);
        }
        row(
            &format!("http tool over REST, {at_once} at once"),
            middle(through),
            middle(direct),
            1.3,
        );
    }
}

async fn pages(count: usize) {
    let project = tempfile::tempdir().unwrap();
    for at in 0..count {
        let name = format!("tool_{at}");
        let manifest = format!(
            "name: {name}
description: Sends one message of the service number {at}
kind: command
version: 1
inputs: {{schema: {{type: object, additionalProperties: false}}}}
outputs: {{format: text}}
exec: {{command: {{entrypoint: 'true'}}}}
permissions: {{}}
approval: {{required: false}}
"
        );
        write(project.path(), &name, &manifest);
    }
    let ours = serve(project.path()).await;
    for (what, line) in [
        ("list page of 25", "GET /tools/tools"),
        ("search", "GET /tools/tools/search?q=mesage"),
    ] {
        let mut stream = TcpStream::connect(ours).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut times = Vec::new();
        for _ in 0..300 {
            let began = Instant::now();
            once(&mut stream, line, "").await;
            times.push(began.elapsed());
        }
        times.sort();
        let name = format!("{what} of {count} tools");
        println!("{name:40} {:>10.1?} {:>10.1?}", times[150], times[297]);
    }
}

fn row(what: &str, ours: Duration, bare: Duration, target: f64) {
    let (ours, bare) = (ours / CALLS as u32, bare / CALLS as u32);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{what:40} {ours:>10.1?} {bare:>10.1?}   {ratio:.2}, target {target}");
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// How long it takes that so many do it, each on its own, divided by their number.
async fn timed<F: Future<Output = ()> + Send + 'static>(
    at_once: usize,
    work: impl Fn() -> F,
) -> Duration {
    let began = Instant::now();
    let tasks: Vec<_> = (0..at_once).map(|_| tokio::spawn(work())).collect();
    for task in tasks {
        task.await.unwrap();
    }
    began.elapsed() / at_once as u32
}

async fn exchange(
    address: SocketAddr,
    at_once: usize,
    line: &'static str,
    body: &'static str,
) -> Duration {
    timed(at_once, || async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for _ in 0..CALLS {
            once(&mut stream, line, body).await;
        }
    })
    .await
}

/// One request and its answer, on a connection that stays.
async fn once(stream: &mut TcpStream, line: &str, body: &str) {
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&bytes[..end])
            .unwrap()
            .to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        if bytes.len() >= end + 4 + length.unwrap().parse::<usize>().unwrap() {
            return;
        }
    }
}

async fn listen(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn open(root: &Path) -> App {
    std::fs::create_dir_all(root.join(".glee/tools")).unwrap();
    let wiring = Wiring {
        natives: vec![glee::native::tool(Echo).unwrap()],
        state: Some("state".into()),
        ..Wiring::with(Absent)
    };
    App::open(Project::at(root).unwrap().unwrap(), wiring).unwrap()
}

async fn serve(root: &Path) -> SocketAddr {
    let bound = http::bind(Settings {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        socket: None,
        hosts: Vec::new(),
        tokens: None,
        bears: Default::default(),
    });
    let bound = bound.await.unwrap();
    let address = bound.address().unwrap();
    let server = Server::new(Arc::new(open(root)), Principal::usual("mcp"));
    tokio::spawn(async move { bound.serve(server, std::future::pending()).await });
    address
}

fn write(root: &Path, name: &str, manifest: &str) {
    let directory = root.join(".glee/tools").join(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tool.yml"), manifest).unwrap();
}

fn call(tool: &str) -> Call {
    Call {
        tool: tool.to_owned(),
        args: Map::new(),
        caller: Caller {
            name: "user".to_owned(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: None,
    }
}

fn bare_client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
    client.no_proxy().build().unwrap()
}
