//! What MCP costs: starting, listing, calling; over pipes and over HTTP. Beside glee, in the same run,
//! stand a server with nothing but rmcp, a FastMCP server, and for lists the least that can answer.
//! `cargo bench --bench mcp` prints a table. Every figure is measured twice, the servers taking turns;
//! a ratio is that of the better two.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop where it stands"
)]

mod client;
#[path = "../echo.rs"]
mod echo;
mod peers;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use client::{Client, LIST, Request};
use serde_json::Value;

/// As glee's own binary has it, and every server here.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GLEE: &str = env!("CARGO_BIN_EXE_glee");
const FASTMCP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../benches/mcp/fastmcp_server.py"
);

const PRINTS: &str = "\
name: <name>
description: Prints a word
kind: command
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      word: {type: string, description: The word to print, default: x}
      count: {type: integer, description: How often, default: 1, minimum: 1, maximum: 10}
      mode: {type: string, description: How, enum: [plain, loud]}
outputs: {format: text}
exec: {command: {entrypoint: /bin/echo, args: ['${word}']}}
permissions: {network: false}
approval: {required: false}
";

const SAY: &str = "\
name: say
description: Says a word
kind: command
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    required: [word]
    properties: {word: {type: string, description: The word}}
outputs: {format: text}
exec: {command: {entrypoint: /bin/echo, args: ['${word}']}}
permissions: {network: false}
approval: {required: false}
";

const FETCH: &str = "\
name: fetch
description: Looks an item up
kind: http
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    required: [id]
    properties: {id: {type: string, description: The item}}
outputs:
  format: json
  schema: {type: object, required: [value], properties: {value: {type: integer}}}
exec:
  http:
    method: GET
    url: <upstream>/items/${id}
    response: {fields: [{name: value, path: data.value}]}
permissions: {network: {hosts: [127.0.0.1]}}
approval: {required: false}
";

/// The same work at every server.
const CALLS: &[(&str, Request)] = &[
    ("echo", call(r#"{"name":"echo","arguments":{"text":"x"}}"#)),
    (
        "http tool",
        call(r#"{"name":"fetch","arguments":{"id":"1"}}"#),
    ),
    (
        "/bin/echo",
        call(r#"{"name":"say","arguments":{"word":"x"}}"#),
    ),
];

const fn call(params: &'static str) -> Request {
    Request {
        method: "tools/call",
        params,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Glee,
    /// glee in a program that has the echo as a function of its own.
    Embedded,
    Rmcp,
    FastMcp,
    Floor,
}

const KINDS: [Kind; 4] = [Kind::Glee, Kind::Rmcp, Kind::FastMcp, Kind::Floor];
const CALLED: [Kind; 4] = [Kind::Embedded, Kind::Rmcp, Kind::FastMcp, Kind::Floor];

#[derive(Clone, Copy, PartialEq)]
enum Over {
    Stdio,
    Http,
}

fn main() {
    glee::run_if_launcher();
    if peers::serve_if_asked() {
        return;
    }
    let bench = Bench::new();
    println!("load average at start {}", load());
    println!(
        "{:32} {:>15} {:>15} {:>15} {:>15}   glee took, times",
        "what", "glee", "bare rmcp", "FastMCP", "floor"
    );
    bench.start(100);
    for count in [1000, 10_000] {
        for over in [Over::Stdio, Over::Http] {
            bench.list(count, over);
        }
    }
    for over in [Over::Stdio, Over::Http] {
        bench.calls(100, over);
    }
    println!("load average at end {}", load());
    if bench.python.is_none() {
        println!("FastMCP is not there; `scripts/clients --bench` installs it");
    }
}

struct Bench {
    home: tempfile::TempDir,
    upstream: String,
    /// An interpreter that has FastMCP.
    python: Option<PathBuf>,
}

impl Bench {
    fn new() -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let bench = Bench {
            home: tempfile::tempdir().unwrap(),
            upstream: format!("http://{}", listener.local_addr().unwrap()),
            // Beside `release`, where this program is.
            python: Path::new(GLEE)
                .ancestors()
                .nth(2)
                .map(|it| it.join("clients/bench/bin/python"))
                .filter(|it| it.exists()),
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                peers::upstream(tokio::net::TcpListener::from_std(listener).unwrap()).await;
            });
        });
        for count in [100, 1000, 10_000] {
            bench.project(count);
        }
        bench
    }

    /// A project with so many tools, and what glee answers when they are listed.
    fn project(&self, count: usize) {
        let root = self.root(count);
        tool(&root, "say", SAY);
        tool(&root, "fetch", &FETCH.replace("<upstream>", &self.upstream));
        for n in 2..count {
            tool(&root, &format!("tool_{n}"), PRINTS);
        }
        std::fs::write(root.join(".glee/config.yml"), "mcp: {exposure: direct}\n").unwrap();
        let mut client = Client::over_pipe(self.command(Kind::Glee, Over::Stdio, count, 0));
        let answer: Value = serde_json::from_slice(client.answer(&LIST)).unwrap();
        std::fs::write(self.listed(count), answer["result"].to_string()).unwrap();
    }

    fn root(&self, count: usize) -> PathBuf {
        self.home.path().join(count.to_string())
    }

    fn listed(&self, count: usize) -> PathBuf {
        self.root(count).join("listed.json")
    }

    fn command(&self, kind: Kind, over: Over, count: usize, port: u16) -> Command {
        let transport = match over {
            Over::Stdio => "stdio",
            Over::Http => "http",
        };
        let (count_text, port_text) = (count.to_string(), port.to_string());
        let mut command = match (kind, over) {
            (Kind::Glee, Over::Stdio) => {
                let mut it = self.glee(count);
                it.arg("mcp");
                it
            }
            (Kind::Glee, Over::Http) => {
                let mut it = self.glee(count);
                it.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
                it
            }
            (Kind::Embedded, _) => {
                let mut it = Command::new(std::env::current_exe().unwrap());
                it.args([peers::GLEE, transport]).arg(self.root(count));
                it.args([&self.upstream, &port_text]);
                it
            }
            (Kind::FastMcp, _) => {
                let mut it = Command::new(self.python.as_ref().unwrap());
                it.args([FASTMCP, transport, &count_text, &self.upstream, &port_text]);
                it
            }
            (Kind::Rmcp | Kind::Floor, _) => {
                let mut it = Command::new(std::env::current_exe().unwrap());
                it.arg(if kind == Kind::Rmcp {
                    peers::RMCP
                } else {
                    peers::FLOOR
                });
                it.arg(transport).arg(self.listed(count));
                it.args([&self.upstream, &port_text]);
                it
            }
        };
        command.env("HOME", self.home.path());
        command
    }

    fn glee(&self, count: usize) -> Command {
        let mut command = Command::new(GLEE);
        command
            .current_dir(self.root(count))
            .env("HOME", self.home.path())
            .env_remove("XDG_STATE_HOME");
        command
    }

    fn client(&self, kind: Kind, over: Over, count: usize) -> Option<Client> {
        // FastMCP takes minutes to take in the most tools.
        let absent = kind == Kind::FastMcp && (self.python.is_none() || count > 1000);
        if absent {
            return None;
        }
        if over == Over::Stdio {
            return Some(Client::over_pipe(self.command(kind, over, count, 0)));
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let token = matches!(kind, Kind::Glee | Kind::Embedded).then(|| self.token(count));
        let command = self.command(kind, over, count, port);
        Some(Client::over_http(command, port, token.as_deref()))
    }

    fn token(&self, count: usize) -> String {
        let made = self.glee(count).args(["token", "create", "bench"]).output();
        String::from_utf8(made.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    fn start(&self, count: usize) {
        let mut memory = Vec::new();
        let cold = twice(KINDS, |kind| {
            let times = if kind == Kind::FastMcp { 1 } else { 11 };
            let mut all = Vec::new();
            for _ in 0..times {
                let began = Instant::now();
                let mut client = self.client(kind, Over::Stdio, count)?;
                client.answer(&LIST);
                all.push(began.elapsed().as_secs_f64() * 1000.0);
                if all.len() == times {
                    std::thread::sleep(Duration::from_millis(200));
                    memory.push((kind, client.memory()));
                }
            }
            all.sort_by(f64::total_cmp);
            Some(all[all.len() / 2])
        });
        row(
            &format!("cold start and list of {count}, ms"),
            &cold,
            Better::Less,
        );
        let memory = KINDS.map(|kind| {
            let mut of_kind = memory.iter().filter(|it| it.0 == kind).map(|it| it.1);
            Some([of_kind.next()?, of_kind.next()?])
        });
        row("idle memory, MiB", &memory, Better::Less);
    }

    fn list(&self, count: usize, over: Over) {
        let mut clients = KINDS.map(|it| self.client(it, over, count));
        let measured = twice(KINDS, |kind| Some(of(&mut clients, kind)?.latency(&LIST)));
        row(
            &format!("list of {count}, {}, ms", name(over)),
            &measured,
            Better::Less,
        );
    }

    fn calls(&self, count: usize, over: Over) {
        let mut clients = CALLED.map(|it| match it {
            Kind::Floor => None,
            _ => self.client(it, over, count),
        });
        for (what, request) in CALLS {
            let one = twice(CALLED, |kind| {
                Some(of(&mut clients, kind)?.latency(request) * 1000.0)
            });
            row(
                &format!("{what}, {}, 1 at once, µs", name(over)),
                &one,
                Better::Less,
            );
            for in_flight in [16, 64] {
                let many = twice(CALLED, |kind| {
                    Some(of(&mut clients, kind)?.rate(request, in_flight))
                });
                let title = format!("{what}, {}, {in_flight} at once, /s", name(over));
                row(&title, &many, Better::More);
            }
        }
    }
}

type Measured = [Option<[f64; 2]>; 4];

/// Turn about, so that all see the same machine, and again, to see how far the machine is to blame.
fn twice(kinds: [Kind; 4], mut measure: impl FnMut(Kind) -> Option<f64>) -> Measured {
    let first = kinds.map(&mut measure);
    let again = kinds.map(&mut measure);
    std::array::from_fn(|at| Some([first[at]?, again[at]?]))
}

fn of(clients: &mut [Option<Client>; 4], kind: Kind) -> Option<&mut Client> {
    let at = match kind {
        Kind::Glee | Kind::Embedded => 0,
        Kind::Rmcp => 1,
        Kind::FastMcp => 2,
        Kind::Floor => 3,
    };
    clients[at].as_mut()
}

#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
}

fn row(what: &str, measured: &Measured, better: Better) {
    let best = measured.map(|it| {
        it.map(|[first, again]| match better {
            Better::Less => first.min(again),
            Better::More => 1.0 / first.max(again),
        })
    });
    let cells = measured.map(|it| match it {
        Some([first, again]) => format!("{} {}", short(first), short(again)),
        None => "–".to_owned(),
    });
    let mut ratios = Vec::new();
    for (name, other) in [("rmcp", best[1]), ("FastMCP", best[2]), ("floor", best[3])] {
        if let (Some(glee), Some(other)) = (best[0], other) {
            ratios.push(format!("{name} ×{:.2}", glee / other));
        }
    }
    let [glee, rmcp, fastmcp, floor] = cells;
    let ratios = ratios.join(", ");
    println!("{what:32} {glee:>15} {rmcp:>15} {fastmcp:>15} {floor:>15}   {ratios}");
}

fn short(value: f64) -> String {
    match value {
        it if it < 10.0 => format!("{it:.2}"),
        it if it < 100.0 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    }
}

fn name(over: Over) -> &'static str {
    match over {
        Over::Stdio => "stdio",
        Over::Http => "http",
    }
}

fn tool(root: &Path, name: &str, manifest: &str) {
    let directory = root.join(".glee/tools").join(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tool.yml"), manifest.replace("<name>", name)).unwrap();
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
