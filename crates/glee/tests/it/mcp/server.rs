//! The two servers, started as a client or a person starts them, and what is said to them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{GLEE, Scene, stderr, stdout};

/// Long enough for a busy machine; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, with nothing of the test's own environment but the PATH.
pub(crate) fn command(scene: &Scene, args: &[&str]) -> Command {
    let mut command = Command::new(GLEE);
    in_project(command.args(args), scene);
    command
}

/// A command in the root of a project, with nothing of the test's own environment but the PATH.
pub(crate) fn in_project<'a>(command: &'a mut Command, scene: &Scene) -> &'a mut Command {
    command
        .current_dir(&scene.root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home(scene))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
}

/// A home of its own, so that tokens and the like are not shared with the machine's user.
pub(crate) fn home(scene: &Scene) -> PathBuf {
    let home = scene.root.with_file_name("home");
    fs::create_dir_all(&home).unwrap();
    home
}

/// What a command prints, with the same home as the servers.
pub(crate) fn glee(scene: &Scene, args: &[&str]) -> String {
    let output = command(scene, args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).trim().to_owned()
}

/// What a child says on a stream, read all the time so that it never blocks.
fn drain(stream: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut heard = heard.lock().unwrap();
            heard.push_str(&line);
            heard.push('\n');
        }
    });
    said
}

/// `glee mcp`, at the other end of two pipes.
pub(crate) struct Pipes {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<String>,
    said: Arc<Mutex<String>>,
}

impl Pipes {
    pub(crate) fn start(scene: &Scene) -> Pipes {
        Pipes::start_and_read_later(scene).0
    }

    /// Nothing that the server says is read before the second of these is dropped.
    pub(crate) fn start_and_read_later(scene: &Scene) -> (Pipes, Sender<()>) {
        let (later, waits) = channel::<()>();
        let mut child = command(scene, &["mcp"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let _ = waits.recv();
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let pipes = Pipes {
            stdin: child.stdin.take(),
            said: drain(child.stderr.take().unwrap()),
            messages,
            child,
        };
        (pipes, later)
    }

    /// A server that has been through the handshake.
    pub(crate) fn open(scene: &Scene, version: &str) -> Pipes {
        let mut pipes = Pipes::start(scene);
        pipes.send(&initialize(version));
        let answer = pipes.answer(&json!(0));
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        pipes.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        pipes
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    pub(crate) fn send_line(&mut self, line: &[u8]) {
        self.send_bytes(line);
        self.send_bytes(b"\n");
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next message. All that comes must be JSON-RPC: nothing else belongs on stdout.
    pub(crate) fn receive(&self) -> Value {
        let line = match self.messages.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no message came\n{}", self.said()),
            Err(RecvTimeoutError::Disconnected) => panic!("the server is gone\n{}", self.said()),
        };
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// The answer to a request; what comes before it is passed over.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(crate) fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(&id)
    }

    /// The client goes: its end of the pipe is closed.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
}

/// The parameters of a request of the stateless era, by a client that can be asked and can wait.
pub(crate) fn modern(params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    params
}

/// `glee serve`, on a port of its own.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// `127.0.0.1:<port>`
    pub(crate) address: String,
    /// Absent when the server was started without any.
    pub(crate) token: Option<String>,
    said: Arc<Mutex<String>>,
}

impl Served {
    /// For whoever is on this machine.
    pub(crate) fn open(scene: &Scene) -> Served {
        Served::start(scene, &["serve", "--listen", "127.0.0.1:0", "--no-auth"])
    }

    /// The same, for tools that find these variables.
    pub(crate) fn open_with(scene: &Scene, env: &BTreeMap<String, String>) -> Served {
        let args = ["serve", "--listen", "127.0.0.1:0", "--no-auth"];
        Served::start_with(scene, &args, env)
    }

    /// For whoever has the token.
    pub(crate) fn guarded(scene: &Scene) -> Served {
        let mut served = Served::start(scene, &["serve", "--listen", "127.0.0.1:0"]);
        let file = served.token_file();
        served.token = Some(fs::read_to_string(file).unwrap().trim().to_owned());
        served
    }

    pub(crate) fn start(scene: &Scene, args: &[&str]) -> Served {
        Served::start_with(scene, args, &BTreeMap::new())
    }

    pub(crate) fn start_with(
        scene: &Scene,
        args: &[&str],
        env: &BTreeMap<String, String>,
    ) -> Served {
        Served::begin(command(scene, args).envs(env))
    }

    pub(crate) fn begin(command: &mut Command) -> Served {
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let said = drain(child.stderr.take().unwrap());
        let mut served = Served {
            child,
            address: String::new(),
            token: None,
            said,
        };
        eventually("the server tells its address", || {
            let gone = served.child.try_wait().unwrap();
            assert!(gone.is_none(), "{}", served.said());
            let address = address(&served.said());
            address.map(|it| served.address = it).is_some()
        });
        served
    }

    /// The server says where it keeps the token of whoever started it.
    pub(crate) fn token_file(&self) -> PathBuf {
        let mut file = None;
        eventually("the place of the token is told", || {
            let said = self.said();
            let place = said.lines().find_map(|it| it.strip_prefix("token: "));
            file = place.map(PathBuf::from);
            file.is_some()
        });
        file.unwrap()
    }

    /// Whether somebody with this token would be heard.
    pub(crate) fn admits(&self, token: &str) -> bool {
        let authorization = format!("Bearer {token}");
        let reply = self.request("GET", &[("Authorization", &authorization)], b"");
        reply.status != 401
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Headers that a well-behaved client sends with a request.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Host".into(), self.address.clone()),
            ("Content-Type".into(), "application/json".into()),
            (
                "Accept".into(),
                "application/json, text/event-stream".into(),
            ),
        ];
        if let Some(token) = &self.token {
            headers.push(("Authorization".into(), format!("Bearer {token}")));
        }
        headers
    }

    /// A request of the handshake era.
    pub(crate) fn post(&self, more: &[(&str, &str)], body: &Value) -> Reply {
        self.post_bytes(more, body.to_string().as_bytes())
    }

    /// The headers given here take the place of the usual ones; an empty one is not sent.
    pub(crate) fn post_bytes(&self, more: &[(&str, &str)], body: &[u8]) -> Reply {
        self.request("POST", more, body)
    }

    pub(crate) fn request(&self, method: &str, more: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut headers = self.headers();
        for (name, value) in more {
            headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        exchange(&self.address, &format!("{method} /mcp"), &headers, body)
    }

    /// A REST request: `GET /approvals`, by whoever has this token. An empty header is not sent.
    pub(crate) fn rest(
        &self,
        line: &str,
        token: &str,
        more: &[(&str, &str)],
        body: &Value,
    ) -> Reply {
        let mut stream = self.rest_stream(line, token, more, body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        parse(&bytes)
    }

    /// The same, with a body of another kind, and the answer left on the connection.
    pub(crate) fn send_bytes(&self, line: &str, token: &str, kind: &str, body: &[u8]) -> TcpStream {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("Host", self.address.as_str()),
            ("Content-Type", kind),
            ("Authorization", &authorization),
        ];
        let headers = headers.map(|it| (it.0.to_owned(), it.1.to_owned()));
        send(&self.address, line, &headers, body)
    }

    pub(crate) fn rest_bytes_of(&self, line: &str, token: &str, kind: &str, body: &[u8]) -> Reply {
        let mut bytes = Vec::new();
        let _ = self
            .send_bytes(line, token, kind, body)
            .read_to_end(&mut bytes);
        parse(&bytes)
    }

    /// The same, with a body that need not be JSON.
    pub(crate) fn rest_bytes(&self, line: &str, token: &str, body: &[u8]) -> Reply {
        let mut headers = self.headers();
        headers.retain(|(it, _)| it != "Authorization");
        headers.push(("Authorization".into(), format!("Bearer {token}")));
        exchange(&self.address, line, &headers, body)
    }

    /// The same, with the answer left on the connection.
    pub(crate) fn rest_stream(
        &self,
        line: &str,
        token: &str,
        more: &[(&str, &str)],
        body: &Value,
    ) -> TcpStream {
        let authorization = format!("Bearer {token}");
        let mut headers = self.headers();
        for (name, value) in more
            .iter()
            .chain([&("Authorization", authorization.as_str())])
        {
            headers.retain(|(it, _)| !it.eq_ignore_ascii_case(name));
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        send(&self.address, line, &headers, body.as_bytes())
    }

    /// Sends a request of the stateless era and leaves its answer on the connection.
    pub(crate) fn send(&self, method: &str, name: &str, message: &Value) -> TcpStream {
        let mut headers = self.headers();
        headers.extend([
            ("MCP-Protocol-Version".into(), "2026-07-28".into()),
            ("Mcp-Method".into(), method.into()),
            ("Mcp-Name".into(), name.into()),
        ]);
        send(
            &self.address,
            "POST /mcp",
            &headers,
            message.to_string().as_bytes(),
        )
    }

    /// A request of the stateless era.
    pub(crate) fn call(&self, id: u64, method: &str, params: Value) -> Reply {
        self.call_as(self.token.as_deref(), id, method, params)
    }

    /// A request of the stateless era, by whoever has this token.
    pub(crate) fn call_as(
        &self,
        token: Option<&str>,
        id: u64,
        method: &str,
        params: Value,
    ) -> Reply {
        let name = ["name", "uri", "taskId"]
            .iter()
            .find_map(|it| params[it].as_str());
        let name = name.unwrap_or_default().to_owned();
        let authorization = token.map(|it| format!("Bearer {it}")).unwrap_or_default();
        self.post(
            &[
                ("Authorization", &authorization),
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", method),
                ("Mcp-Name", &name),
            ],
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": modern(params)}),
        )
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in what the server says of itself when it starts.
fn address(said: &str) -> Option<String> {
    let rest = said.split_once("http://")?.1;
    let address = rest.split(['/', ' ', '\n']).next()?;
    Some(address.to_owned())
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC messages of the body, whether it is one or a stream of them.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self.header("content-type") == Some("text/event-stream") {
            let data = self.body.lines().filter_map(|it| it.strip_prefix("data:"));
            data.filter_map(|it| serde_json::from_str(it).ok())
                .collect()
        } else {
            vec![serde_json::from_str(&self.body).unwrap_or_else(|err| panic!("{err}: {self:?}"))]
        }
    }

    /// The message that ends the exchange.
    pub(crate) fn message(&self) -> Value {
        let last = self.messages().pop();
        last.unwrap_or_else(|| panic!("no message: {self:?}"))
    }
}

pub(crate) fn exchange(
    address: &str,
    line: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Reply {
    let mut stream = send(address, line, headers, body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

/// One request on a connection of its own, byte for byte as given: no client library would send what
/// some of the tests send.
pub(crate) fn send(
    address: &str,
    line: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = format!("{line} HTTP/1.1\r\n");
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!(
        "Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    ));
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses a request may stop reading it; its answer is what counts.
    let _ = stream.write_all(body);
    stream
}

pub(crate) fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let mut reply = Reply {
        status: status.parse().unwrap(),
        headers: lines
            .filter_map(|it| it.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
        body: String::new(),
    };
    let body = &bytes[end + 4..];
    let body = match reply.header("transfer-encoding") {
        Some("chunked") => unchunk(body),
        _ => body.to_vec(),
    };
    reply.body = String::from_utf8_lossy(&body).into_owned();
    reply
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(line) = body.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&body[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let chunk = &body[line + 2..];
        if size == 0 || chunk.len() < size + 2 {
            break;
        }
        whole.extend_from_slice(&chunk[..size]);
        body = &chunk[size + 2..];
    }
    whole
}

/// A tool that needs an answer.
pub(crate) const ASKING: &str = "\
name: asking
description: Greet the user, after asking for the name
kind: command
version: 1
inputs:
  schema:
    type: object
    required: [name]
    properties: {name: {type: string, description: A name}}
outputs: {format: text}
elicit:
  - user: {message: What is your name?, fields: [name]}
exec: {command: {entrypoint: printf, args: ['%s', 'Hello, ${name}!']}}
permissions: {}
approval: {required: false}
";

/// A project with a tool that repeats, one that takes its time, one that does so as a task, one that asks,
/// and one that tells how far it is.
pub(crate) fn scene() -> Scene {
    let scene = Scene::new();
    let tool = |name: &str, properties: &str, rest: &str| {
        let manifest = format!(
            "name: {name}
description: A tool for tests
kind: command
version: 1
inputs: {{schema: {{type: object, additionalProperties: false, properties: {properties}}}}}
outputs: {{format: text}}
{rest}
permissions: {{}}
approval: {{required: false}}
"
        );
        scene.write(&format!(".glee/tools/{name}/tool.yml"), &manifest);
    };
    tool(
        "echo",
        "{text: {type: string, description: What to repeat}}",
        "exec: {command: {entrypoint: cat, stdin: '${text}'}}",
    );
    tool(
        "sleep",
        "{seconds: {type: string, description: How long}}",
        "exec: {command: {entrypoint: sleep, args: ['${seconds}'], timeout_ms: 900000}}",
    );
    tool(
        "slow",
        "{}",
        "exec: {command: {entrypoint: sleep, args: ['600']}}\ntask: supported",
    );
    scene.write(".glee/tools/asking/tool.yml", ASKING);
    tool("note", "{}", "exec: {command: {entrypoint: ./note.sh}}");
    scene.write(
        "note.sh",
        "#!/bin/sh\necho '{\"progress\": 1, \"total\": 2, \"message\": \"half\"}' >&\"$GLEE_NOTES_FD\"\n",
    );
    scene
}

/// Ten minutes and a fraction that no other process has: a word to find a sleeper by.
pub(crate) fn unique() -> String {
    format!("600.{}", uuid::Uuid::now_v7().as_u128())
}

/// Whether any process of the machine was started with this word.
pub(crate) fn running(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|it| fs::read(it.path().join("cmdline")).ok())
        .any(|it| it.split(|it| *it == 0).any(|it| it == word.as_bytes()))
}

/// Copies a project, because its tools may change it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// Waits until it holds, and says what was waited for when it does not.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
