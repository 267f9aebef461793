//! Calls over HTTP that ask for nothing are answered in one piece, beside the streams of their session. What holds on
//! the way through a session holds there too.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glee::app::{App, Wiring};
use glee::native::{About, Context, Failure, NativeTool};
use glee::surface::http::{self, Settings};
use glee::surface::mcp::Server;
use glee::surface::principal::Principal;
use glee_core::outcome::FailureKind;
use glee_core::port::{Answer, Level};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::server::{Reply, Served, eventually, exchange, glee, initialize, parse, scene, send};
use crate::support::{Scene, wiring};

/// A tool that says something and stays until it is let go. It counts how often it began and was over.
#[derive(Clone)]
struct Speak {
    began: Arc<AtomicUsize>,
    over: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Speech {
    /// What to say
    text: Option<String>,
}

struct Over(Arc<AtomicUsize>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl NativeTool for Speak {
    type Input = Speech;
    type Output = bool;

    fn about(&self) -> About {
        About::new("speak", "Say something, and stay until it is let go")
    }

    async fn run(&self, speech: Speech, context: Context<'_>) -> Result<bool, Failure> {
        let _over = Over(self.over.clone());
        self.began.fetch_add(1, Ordering::SeqCst);
        if let Some(text) = &speech.text {
            context.log(Level::Warning, text);
        }
        let let_go = self.go.acquire().await;
        let let_go = let_go.map_err(|_| Failure::new(FailureKind::Internal, "nobody is there"))?;
        let_go.forget();
        Ok(true)
    }
}

/// A server in this very process, and a client that has shaken hands with it.
struct Here {
    address: String,
    session: String,
    tool: Speak,
    _runtime: Runtime,
    scene: Scene,
}

impl Here {
    fn new() -> Here {
        let scene = scene();
        let tool = Speak {
            began: Arc::default(),
            over: Arc::default(),
            go: Arc::new(Semaphore::new(0)),
        };
        let nobody = Answer::Nobody {
            hint: String::new(),
        };
        let wiring = Wiring {
            natives: vec![glee::native::tool(tool.clone()).unwrap()],
            ..wiring(Default::default(), nobody)
        };
        let app = Arc::new(App::open(scene.project(), wiring).unwrap());
        let runtime = Runtime::new().unwrap();
        let bound = runtime.block_on(http::bind(Settings {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            socket: None,
            hosts: Vec::new(),
            tokens: None,
            bears: Default::default(),
        }));
        let bound = bound.unwrap();
        let address = bound.address().unwrap().to_string();
        let server = Server::new(app, Principal::usual("mcp"));
        runtime.spawn(async move { bound.serve(server, std::future::pending()).await });
        let mut here = Here {
            address,
            session: String::new(),
            tool,
            _runtime: runtime,
            scene,
        };
        let begun = here.post(&[], &initialize("2025-11-25"));
        here.session = begun.header("mcp-session-id").unwrap().to_owned();
        here.post(
            &[],
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        );
        // That hands were shaken is heard a moment after it was said.
        let list = call(0, "glee_tools_list", json!({}));
        eventually("an answer comes in one piece", || {
            here.post(&[], &list).header("content-type") == Some("application/json")
        });
        here
    }

    fn headers(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let usual = [
            ("Host", self.address.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", &self.session),
        ];
        let given = |name: &str| more.iter().any(|it| it.0 == name);
        let usual = usual.iter().filter(|it| !given(it.0));
        let all = usual.chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn post(&self, more: &[(&str, &str)], body: &Value) -> Reply {
        let body = body.to_string();
        exchange(
            &self.address,
            "POST /mcp",
            &self.headers(more),
            body.as_bytes(),
        )
    }

    /// Sends a call, waits until the tool has begun, and leaves the answer on the connection.
    fn begin(&self, body: &Value) -> TcpStream {
        let before = self.tool.began.load(Ordering::SeqCst);
        let headers = self.headers(&[]);
        let stream = send(
            &self.address,
            "POST /mcp",
            &headers,
            body.to_string().as_bytes(),
        );
        eventually("the tool has begun", || {
            self.tool.began.load(Ordering::SeqCst) > before
        });
        stream
    }

    fn is_over(&self) -> bool {
        self.tool.over.load(Ordering::SeqCst) == self.tool.began.load(Ordering::SeqCst)
    }
}

fn call(id: u64, tool: &str, args: Value) -> Value {
    let params = json!({"name": tool, "arguments": args});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn rest(mut stream: TcpStream, mut bytes: Vec<u8>) -> Reply {
    stream.read_to_end(&mut bytes).unwrap();
    parse(&bytes)
}

#[test]
fn an_answer_comes_in_one_piece_where_nothing_was_said_before_it() {
    let here = Here::new();
    let stream = here.begin(&call(7, "speak", json!({})));
    here.tool.go.add_permits(1);
    let reply = rest(stream, Vec::new());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let message = reply.message();
    assert_eq!(message["id"], 7);
    assert_eq!(
        message["result"]["structuredContent"],
        json!({"result": true})
    );
    // By the other name it goes the same way.
    let by_name = json!({"name": "speak", "params": {}});
    let stream = here.begin(&call(8, "glee_tool", by_name));
    here.tool.go.add_permits(1);
    let reply = rest(stream, Vec::new());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.message()["id"], 8);
}

#[test]
fn what_is_said_comes_at_once_and_the_answer_after_it() {
    let here = Here::new();
    let mut stream = here.begin(&call(7, "speak", json!({"text": "it goes well"})));
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while !String::from_utf8_lossy(&bytes).contains("it goes well") {
        let length = stream.read(&mut piece).unwrap();
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&bytes));
        bytes.extend(&piece[..length]);
    }
    assert!(!here.is_over());
    here.tool.go.add_permits(1);
    let reply = rest(stream, bytes);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let messages = reply.messages();
    let [note, answer] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(note["method"], "notifications/message");
    assert_eq!(answer["id"], 7);
}

#[test]
fn what_is_taken_back_ends_and_is_not_answered() {
    let here = Here::new();
    let stream = here.begin(&call(7, "speak", json!({})));
    let taken_back =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(here.post(&[], &taken_back).status, 202);
    eventually("the tool is over", || here.is_over());
    let reply = rest(stream, Vec::new());
    assert_eq!(
        (reply.status, reply.messages()),
        (200, Vec::new()),
        "{reply:?}"
    );
    // What is not under way is taken back by nobody, and the session goes on.
    assert_eq!(here.post(&[], &taken_back).status, 202);
    let listed = here.post(&[], &call(7, "glee_tools_list", json!({})));
    assert!(listed.message()["result"].is_object(), "{listed:?}");
}

#[test]
fn who_goes_takes_the_call_back() {
    let here = Here::new();
    drop(here.begin(&call(7, "speak", json!({}))));
    eventually("the tool is over", || here.is_over());
    // And not because it was out of time.
    let journal = here.scene.root.join(".glee/audit/journal.jsonl");
    eventually("it was taken back", || {
        let journal = std::fs::read_to_string(&journal).unwrap();
        assert!(!journal.contains("TIMEOUT"), "{journal}");
        journal.contains("CANCELLED")
    });
}

#[test]
fn what_is_under_way_ends_with_its_session() {
    let here = Here::new();
    let stream = here.begin(&call(7, "speak", json!({})));
    exchange(&here.address, "DELETE /mcp", &here.headers(&[]), b"");
    eventually("the tool is over", || here.is_over());
    // A tool that was out of time would be answered for.
    let reply = rest(stream, Vec::new());
    assert_eq!(reply.messages(), Vec::<Value>::new(), "{reply:?}");
}

#[test]
fn what_must_be_judged_or_takes_long_goes_through_the_session() {
    let here = Here::new();
    let list = call(1, "glee_tools_list", json!({}));
    let reply = here.post(&[("MCP-Protocol-Version", "1999-01-01")], &list);
    assert_eq!(reply.status, 400, "{reply:?}");
    let reply = here.post(&[("Accept", "application/json")], &list);
    assert_eq!(reply.status, 406, "{reply:?}");
    let reply = here.post(&[("Mcp-Method", "tools/call")], &list);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    // A process may take long, and whoever was cut off from it can come back.
    let reply = here.post(&[], &call(1, "echo", json!({"text": "hello"})));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.message()["result"]["content"][0]["text"], "hello");
    // A session that is over is over here too.
    let ended = exchange(&here.address, "DELETE /mcp", &here.headers(&[]), b"");
    assert!(matches!(ended.status, 200 | 202 | 204), "{ended:?}");
    assert_eq!(here.post(&[], &list).status, 404);
}

#[test]
fn a_call_is_made_by_whoever_has_the_session_and_may() {
    let scene = scene();
    scene.write("note.txt", "hello");
    scene.write(
        ".glee/config.yml",
        "builtins: {enable: [read_file]}\nserver: {request_bytes: 2048}\n",
    );
    let served = Served::guarded(&scene);
    for (name, scope, expected) in [
        ("reader", "read_registry", "PERMISSION_DENIED"),
        ("agent", "invoke_tool", "hello"),
    ] {
        let token = glee(&scene, &["token", "create", name, "--scope", scope]);
        eventually("the token is known", || served.admits(&token));
        let bearer = format!("Bearer {token}");
        let begun = served.post(&[("Authorization", &bearer)], &initialize("2025-11-25"));
        let session = begun.header("mcp-session-id").unwrap().to_owned();
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Mcp-Session-Id", &session),
        ];
        served.post(
            &headers,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        );
        let read = call(1, "read_file", json!({"path": "note.txt"}));
        let mut reply = served.post(&headers, &read);
        eventually("an answer comes in one piece", || {
            reply = served.post(&headers, &read);
            reply.header("content-type") == Some("application/json")
        });
        assert!(reply.body.contains(expected), "{name}: {reply:?}");
        let large = call(1, "glee_tools_search", json!({"query": "x".repeat(4096)}));
        assert_eq!(served.post(&headers, &large).status, 413);
    }
    let log = glee(&scene, &["audit", "export"]);
    let made_by = |name: &str| log.contains(&format!("\"actor\":\"{name}\""));
    assert!(made_by("agent") && !made_by("reader"), "{log}");
}
