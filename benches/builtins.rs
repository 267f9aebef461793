//! What built-in tools cost that go through much: a large file, a large directory, a large project. `cargo bench
//! --bench builtins` prints a table; each figure stands beside its target, or beside what it is measured against, from
//! the same run.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop where it stands"
)]

#[expect(dead_code, reason = "it is the other bench that asks over HTTP")]
#[path = "mcp/client.rs"]
mod client;

use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, Request};
use glee::app::{App, Call, Wiring};
use glee::approve::absent::Absent;
use glee::project::Project;
use glee_core::port::{Caller, Cancel, Waits};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const GLEE: &str = env!("CARGO_BIN_EXE_glee");

const CONFIG: &str = "builtins: {enable: [core, dev]}\n";
/// The whole of a file is given at once, and not its two ends and a handle for the rest.
const WHOLE: &str = "mcp: {result_bytes: 16777216}\n";

const READ: Request = Request {
    method: "tools/call",
    params: r#"{"name":"read_file","arguments":{"path":"large.txt"}}"#,
};

const LARGE: usize = 1_000_000;
const FILES: usize = 10_000;
const CODE: usize = 50_000_000;

fn main() {
    glee::run_if_launcher();
    let home = tempfile::tempdir().unwrap();
    let root = &home.path().join("project");
    std::fs::create_dir_all(root.join(".glee")).unwrap();
    std::fs::write(root.join(".glee/config.yml"), CONFIG).unwrap();
    println!("load average at start {}", load());
    println!("{:34} {:>12}   compared with", "what", "measured");
    read(
        root,
        "read_file of 1 MB over MCP",
        CONFIG,
        "glee_result_read",
    );
    let whole = format!("{CONFIG}{WHOLE}");
    let given = r#""structuredContent":{"content":"#;
    read(root, "the same, all of it at once", &whole, given);
    list(root);
    search(root);
    println!("load average at end {}", load());
}

/// Lines as they stand in code.
fn code(length: usize, seed: usize) -> String {
    let mut text = String::with_capacity(length + 100);
    let mut line = seed;
    while text.len() < length {
        text += &format!("    let value_{line} = parse(\"input {line}\")?; // of module {seed}\n");
        line += 1;
    }
    text.truncate(length);
    text
}

/// Turn about, so that all see the same machine.
fn read(root: &Path, what: &str, config: &str, given: &str) {
    std::fs::write(root.join(".glee/config.yml"), config).unwrap();
    let path = root.join("large.txt");
    std::fs::write(&path, code(LARGE, 1)).unwrap();
    let mut command = Command::new(GLEE);
    command.arg("mcp").current_dir(root);
    command.env("XDG_STATE_HOME", root.with_file_name("state"));
    let mut client = Client::over_pipe(command);
    let answer = String::from_utf8_lossy(client.answer(&READ)).into_owned();
    assert!(answer.contains(given), "{}", &answer[..500]);
    let (mut bare, mut sent, mut through) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        let began = Instant::now();
        black_box(encoded(&path));
        bare.push(began.elapsed());
        let began = Instant::now();
        over_pipe(&path);
        sent.push(began.elapsed());
        let began = Instant::now();
        client.answer(&READ);
        through.push(began.elapsed());
    }
    let (bare, sent, through) = (middle(bare), middle(sent), middle(through));
    row(
        what,
        through,
        &format!(
            "read and JSON encode {}, {:.1} times as long; the same and twice through a pipe, as MCP has it, {}, {:.1} times; target 2 times",
            ms(bare),
            times(through, bare),
            ms(sent),
            times(through, sent),
        ),
    );
}

/// A file as JSON, and nothing more.
fn encoded(path: &Path) -> String {
    let content = std::fs::read_to_string(path).unwrap();
    serde_json::to_string(&json!({"content": content})).unwrap()
}

/// The same through a pipe to a reader, as a text and as an object: so much an answer over MCP holds.
fn over_pipe(path: &Path) {
    let (mut from, mut to) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut taken = Vec::with_capacity(64 << 10);
            from.read_to_end(&mut taken).unwrap();
            black_box(taken);
        });
        let text = encoded(path);
        let mut line = serde_json::to_vec(&text).unwrap();
        line.extend_from_slice(text.as_bytes());
        to.write_all(&line).unwrap();
        drop(to);
    });
}

fn list(root: &Path) {
    let directory = root.join("many");
    std::fs::create_dir(&directory).unwrap();
    for at in 0..FILES {
        std::fs::write(directory.join(format!("file_{at}.txt")), "x").unwrap();
    }
    let called = Called::new(root);
    let first = median(20, || {
        let began = Instant::now();
        let listed = called.value("list_directory", json!({"path": "many"}));
        assert_eq!(listed["entries"].as_array().unwrap().len(), 1000);
        began.elapsed()
    });
    row(
        "list_directory of 10 000 files",
        first,
        "the first 1 000 in order; target 50 ms",
    );
    let all = median(20, || {
        let began = Instant::now();
        let (mut cursor, mut seen) = (Value::Null, 0);
        loop {
            let listed = called.value("list_directory", json!({"path": "many", "cursor": cursor}));
            seen += listed["entries"].as_array().unwrap().len();
            cursor = listed["cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(seen, FILES);
        began.elapsed()
    });
    row(
        "the same, all ten answers",
        all,
        "each reads all names of the directory",
    );
}

fn search(root: &Path) {
    let size = CODE / 5000;
    for at in 0..5000 {
        let directory = root.join(format!("src/module_{}", at % 50));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("file_{at}.rs")), code(size, at)).unwrap();
    }
    std::fs::write(root.join("src/zz.rs"), "fn needle_in_it() {}\n").unwrap();
    let called = Called::new(root);
    for (what, args) in [
        ("a name", json!({"query": "needle_in_it"})),
        ("a pattern", json!({"query": r"fn \w+_in_(it|them)\("})),
        (
            "in any case",
            json!({"query": "NEEDLE_in_IT", "ignoreCase": true}),
        ),
        ("words", json!({"query": "needle", "mode": "words"})),
    ] {
        let took = median(5, || {
            let began = Instant::now();
            let found = called.value("search_code", args.clone());
            assert_eq!(found["matches"].as_array().unwrap().len(), 1, "{found}");
            began.elapsed()
        });
        row(
            &format!("search_code of 50 MB, {what}"),
            took,
            "5 001 files; target 1 s",
        );
    }
}

/// A project whose tools are called as a surface calls them.
struct Called {
    app: App,
    runtime: Runtime,
}

impl Called {
    fn new(root: &Path) -> Called {
        let wiring = Wiring {
            launcher: GLEE.into(),
            state: Some(root.with_file_name("state")),
            ..Wiring::with(Absent)
        };
        Called {
            app: App::open(Project::at(root).unwrap().unwrap(), wiring).unwrap(),
            runtime: Runtime::new().unwrap(),
        }
    }

    fn value(&self, tool: &str, args: Value) -> Value {
        let mut args = args.as_object().unwrap().clone();
        args.retain(|_, it| !it.is_null());
        let outcome = self.runtime.block_on(self.app.call(Call {
            tool: tool.into(),
            args,
            caller: Caller {
                name: "user".into(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: Arc::new(Waits),
            approval: None,
        }));
        outcome.result.unwrap().value
    }
}

fn median(times: usize, measure: impl Fn() -> Duration) -> Duration {
    middle((0..times).map(|_| measure()).collect())
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn times(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn row(what: &str, measured: Duration, against: &str) {
    println!("{what:34} {:>12}   {against}", ms(measured));
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1000.0)
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
