//! What glee is measured against: a server with nothing but rmcp, and the least that can answer.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::serve::ListenerExt;
use glee::app::{App, Wiring};
use glee::approve::absent::Absent;
use glee::project::Project;
use glee::store::tokens::Tokens;
use glee::surface::http::{self, Settings};
use glee::surface::mcp::{Server, stdio};
use glee::surface::principal::Principal;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::echo::Echo;

/// The arguments by which this program is one of the servers, and not the bench.
pub(crate) const RMCP: &str = "serve-rmcp";
pub(crate) const FLOOR: &str = "serve-floor";
pub(crate) const GLEE: &str = "serve-glee";

/// Serves, when that is what the arguments say: `list` is the file of what `tools/list` answers, and for
/// glee its project.
pub(crate) fn serve_if_asked() -> bool {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [which, transport, list, upstream, port] = args.as_slice() else {
        return false;
    };
    let port: u16 = port.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if which == GLEE {
        runtime.block_on(embedded(Path::new(list), transport, port));
        return true;
    }
    let list = std::fs::read(list).unwrap();
    match (which.as_str(), transport.as_str()) {
        (RMCP, "stdio") => runtime.block_on(async {
            let server = Bare::new(&list, upstream);
            let running = server.serve(stdio_pipes()).await;
            running.unwrap().waiting().await.unwrap();
        }),
        (RMCP, "http") => runtime.block_on(rmcp_over_http(Bare::new(&list, upstream), port)),
        (FLOOR, "stdio") => floor_over_pipe(&list),
        (FLOOR, "http") => runtime.block_on(floor_over_http(list.leak(), port)),
        _ => return false,
    }
    true
}

/// glee, with a function of this program as a tool.
async fn embedded(root: &Path, transport: &str, port: u16) {
    let project = Project::at(root).unwrap().unwrap();
    let wiring = Wiring {
        natives: vec![glee::native::tool(Echo).unwrap()],
        ..Wiring::with(Absent)
    };
    let app = Arc::new(App::open(project, wiring).unwrap());
    if transport == "stdio" {
        stdio::serve(app).await.unwrap();
        return;
    }
    let settings = Settings {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], port))),
        socket: None,
        hosts: Vec::new(),
        tokens: Some(Tokens::of(root).unwrap()),
        bears: Default::default(),
    };
    let bound = http::bind(settings).await.unwrap();
    let server = Server::new(app, Principal::usual("mcp"));
    bound.serve(server, std::future::pending()).await;
}

/// Tools by rmcp alone: nothing is checked, held, recorded or redacted.
#[derive(Clone)]
struct Bare {
    tools: Arc<Vec<Tool>>,
    client: reqwest::Client,
    upstream: Arc<str>,
}

impl Bare {
    fn new(list: &[u8], upstream: &str) -> Bare {
        let list: ListToolsResult = serde_json::from_slice(list).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Bare {
            tools: Arc::new(list.tools),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            upstream: upstream.into(),
        }
    }

    async fn fetch(&self, id: &str) -> Value {
        let url = format!("{}/items/{id}", self.upstream);
        let answer = self.client.get(url).send().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        json!({"value": answer["data"]["value"]})
    }
}

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = params.arguments.unwrap_or_default();
        let text = |key: &str| args[key].as_str().unwrap().to_owned();
        let result = match params.name.as_ref() {
            "fetch" => CallToolResult::structured(self.fetch(&text("id")).await),
            "say" => {
                let mut command = std::process::Command::new("/bin/echo");
                command.arg(text("word"));
                let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
                let output = String::from_utf8(ran.await.unwrap().stdout).unwrap();
                CallToolResult::success(vec![ContentBlock::text(output)])
            }
            _ => CallToolResult::structured(json!({"text": text("text")})),
        };
        Ok(result.into())
    }
}

async fn rmcp_over_http(server: Bare, port: u16) {
    let mcp = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().route_service("/mcp", mcp);
    let listener = listen(port)
        .await
        .tap_io(|it| it.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

async fn listen(port: u16) -> TcpListener {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))
        .await
        .unwrap()
}

/// What one request is answered with, as far as a bench asks: its id, and `result` as it is.
fn floor_answer(request: &[u8], list: &[u8]) -> Vec<u8> {
    #[derive(serde::Deserialize)]
    struct Asked<'a> {
        id: Option<u64>,
        method: &'a str,
    }
    let asked: Asked = serde_json::from_slice(request).unwrap();
    let Some(id) = asked.id else {
        return Vec::new();
    };
    let result = match asked.method {
        "tools/list" => list,
        _ => br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}"#,
    };
    let mut answer = Vec::with_capacity(result.len() + 64);
    write!(answer, r#"{{"jsonrpc":"2.0","id":{id},"result":"#).unwrap();
    answer.extend_from_slice(result);
    answer.push(b'}');
    answer
}

fn floor_over_pipe(list: &[u8]) {
    let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).unwrap() > 0 {
        let mut answer = floor_answer(&line, list);
        if !answer.is_empty() {
            answer.push(b'\n');
            to.write_all(&answer).unwrap();
            to.flush().unwrap();
        }
        line.clear();
    }
}

async fn floor_over_http(list: &'static [u8], port: u16) {
    let listener = listen(port).await;
    serve_http(listener, |body| floor_answer(body, list)).await;
}

/// What http tools call: always the same small document.
pub(crate) async fn upstream(listener: TcpListener) {
    const ANSWER: &str = r#"{"id":"1","name":"one of many","data":{"value":42,"unit":"mm","tags":["a","b","c"]},"links":{"self":"/items/1"}}"#;
    serve_http(listener, |_| ANSWER.into()).await;
}

async fn serve_http<F>(listener: TcpListener, answer: F)
where
    F: Fn(&[u8]) -> Vec<u8> + Copy + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(serve_connection(stream, answer));
    }
}

async fn serve_connection(stream: TcpStream, answer: impl Fn(&[u8]) -> Vec<u8>) {
    let mut stream = tokio::io::BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let mut body = answer(&body);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        body.splice(0..0, head.into_bytes());
        if stream.write_all(&body).await.is_err() {
            return;
        }
    }
}
