//! The other end of a server, over pipes and over HTTP. Written by hand, so that what is measured is
//! the server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// How long one figure is measured for, and the fewest answers it is made of.
const WINDOW: Duration = Duration::from_millis(500);
const FEWEST: usize = 5;
/// FastMCP takes seconds to start, more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const INITIALIZE: Request = Request {
    method: "initialize",
    params: r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
};
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(crate) const LIST: Request = Request {
    method: "tools/list",
    params: "{}",
};

#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) params: &'static str,
}

impl Request {
    fn text(&self, id: usize) -> String {
        let Request { method, params } = self;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }
}

/// A server that runs, until this is dropped, and a client that has shaken hands with it.
pub(crate) struct Client {
    child: Child,
    wire: Wire,
}

enum Wire {
    Pipe(Pipe),
    Http(Http),
}

impl Client {
    pub(crate) fn over_pipe(mut command: Command) -> Client {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pipe = Pipe {
            to: child.stdin.take().unwrap(),
            from: BufReader::with_capacity(64 << 10, child.stdout.take().unwrap()),
            line: Vec::new(),
        };
        pipe.send(&INITIALIZE.text(0));
        pipe.receive();
        pipe.send(INITIALIZED);
        Client {
            child,
            wire: Wire::Pipe(pipe),
        }
    }

    /// The server listens on the port at some time after it was started.
    pub(crate) fn over_http(mut command: Command, port: u16, token: Option<&str>) -> Client {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n{}",
            token.map_or(String::new(), |it| format!(
                "Authorization: Bearer {it}\r\n"
            ))
        );
        let http = runtime.block_on(Http::open(port, head));
        Client {
            child,
            wire: Wire::Http(Http { runtime, ..http }),
        }
    }

    pub(crate) fn answer(&mut self, request: &Request) -> &[u8] {
        match &mut self.wire {
            Wire::Pipe(pipe) => {
                pipe.send(&request.text(1));
                pipe.receive()
            }
            Wire::Http(http) => {
                let connection = &mut http.connections[0];
                http.runtime
                    .block_on(connection.ask(&http.head, &request.text(1)));
                &connection.body
            }
        }
    }

    /// Half of the answers take no longer than this, one at a time; in milliseconds.
    pub(crate) fn latency(&mut self, request: &Request) -> f64 {
        check(self.answer(request));
        let mut all = Vec::new();
        let began = Instant::now();
        while began.elapsed() < WINDOW || all.len() < FEWEST {
            let asked = Instant::now();
            self.answer(request);
            all.push(asked.elapsed());
        }
        all.sort();
        all[all.len() / 2].as_secs_f64() * 1000.0
    }

    /// Answers in a second, when so many are always waited for.
    pub(crate) fn rate(&mut self, request: &Request, in_flight: usize) -> f64 {
        match &mut self.wire {
            Wire::Pipe(pipe) => pipe.rate(request, in_flight),
            Wire::Http(http) => http.rate(request, in_flight),
        }
    }

    /// Resident memory, in MiB.
    pub(crate) fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|it| it.starts_with("VmRSS")).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An error is answered faster than what was asked for.
fn check(answer: &[u8]) {
    let text = String::from_utf8_lossy(answer);
    let good = text.contains(r#""result":"#) && !text.contains(r#""isError":true"#);
    assert!(good, "{}", &text[..text.len().min(500)]);
}

struct Pipe {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Pipe {
    fn send(&mut self, message: &str) {
        self.to
            .write_all(format!("{message}\n").as_bytes())
            .unwrap();
    }

    fn receive(&mut self) -> &[u8] {
        self.line.clear();
        let length = self.from.read_until(b'\n', &mut self.line).unwrap();
        assert!(length > 0, "the server is gone");
        &self.line
    }

    fn rate(&mut self, request: &Request, in_flight: usize) -> f64 {
        for id in 0..in_flight {
            self.send(&request.text(id));
        }
        let mut answered = 0;
        let began = Instant::now();
        while began.elapsed() < WINDOW {
            check(self.receive());
            answered += 1;
            self.send(&request.text(in_flight + answered));
        }
        let rate = answered as f64 / began.elapsed().as_secs_f64();
        for _ in 0..in_flight {
            self.receive();
        }
        rate
    }
}

struct Http {
    runtime: Runtime,
    port: u16,
    head: String,
    connections: Vec<Connection>,
}

struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    session: Option<String>,
    body: Vec<u8>,
}

impl Http {
    async fn open(port: u16, mut head: String) -> Http {
        let began = Instant::now();
        let mut first = loop {
            match Connection::open(port).await {
                Ok(it) => break it,
                Err(err) => assert!(began.elapsed() < PATIENCE, "{err}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        first.ask(&head, &INITIALIZE.text(0)).await;
        if let Some(session) = &first.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        head += "MCP-Protocol-Version: 2025-11-25\r\n";
        first.ask(&head, INITIALIZED).await;
        Http {
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
            port,
            head,
            connections: vec![first],
        }
    }

    fn rate(&mut self, request: &Request, in_flight: usize) -> f64 {
        let (head, port) = (&self.head, self.port);
        self.runtime.block_on(async {
            while self.connections.len() < in_flight {
                self.connections.push(Connection::open(port).await.unwrap());
            }
            let began = Instant::now();
            let each = self.connections[..in_flight].iter_mut().enumerate().map(
                async |(id, connection)| {
                    let text = request.text(id);
                    let mut answered = 0;
                    while began.elapsed() < WINDOW {
                        connection.ask(head, &text).await;
                        check(&connection.body);
                        answered += 1;
                    }
                    answered
                },
            );
            let answered: usize = join_all(each).await.into_iter().sum();
            answered as f64 / began.elapsed().as_secs_f64()
        })
    }
}

impl Connection {
    async fn open(port: u16) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream: tokio::io::BufReader::with_capacity(64 << 10, stream),
            session: None,
            body: Vec::new(),
        })
    }

    /// Sends a message and reads what it is answered with, to the end.
    async fn ask(&mut self, head: &str, message: &str) {
        let request = format!("{head}Content-Length: {}\r\n\r\n{message}", message.len());
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.body.clear();
        let status = self.line().await;
        assert!(status.starts_with("HTTP/1.1 20"), "{status}");
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => chunked = value == "chunked",
                "mcp-session-id" => self.session = Some(value.to_owned()),
                _ => {}
            }
        }
        if !chunked {
            return self.take(length).await;
        }
        loop {
            let length = usize::from_str_radix(&self.line().await, 16).unwrap();
            self.take(length).await;
            self.line().await;
            if length == 0 {
                return;
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).await.unwrap();
        assert!(length > 0, "the server is gone");
        line.truncate(line.trim_end().len());
        line
    }

    async fn take(&mut self, length: usize) {
        let start = self.body.len();
        self.body.resize(start + length, 0);
        self.stream
            .read_exact(&mut self.body[start..])
            .await
            .unwrap();
    }
}
