//! A client of `glee mcp`, at the other end of two pipes, or of two sockets.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{GLEE, Scene};

pub(super) struct Client {
    pub(super) child: Child,
    stdin: Box<dyn Write>,
    lines: Lines<BufReader<Box<dyn Read>>>,
}

impl Client {
    pub(super) fn start(scene: &Scene) -> Client {
        let mut glee = Command::new(GLEE);
        glee.arg("mcp");
        Client::start_with(scene, glee)
    }

    /// A command that comes to `glee mcp` in the end.
    pub(super) fn start_with(scene: &Scene, mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(scene, &mut command);
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Client::shake_hands(child, Box::new(stdin), Box::new(stdout))
    }

    /// As node starts its children.
    pub(super) fn start_over_sockets(scene: &Scene) -> Client {
        let ((stdin, its_stdin), (stdout, its_stdout)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let mut command = Command::new(GLEE);
        command
            .arg("mcp")
            .stdin(OwnedFd::from(its_stdin))
            .stdout(OwnedFd::from(its_stdout));
        let child = spawn(scene, &mut command);
        Client::shake_hands(child, Box::new(stdin), Box::new(stdout))
    }

    fn shake_hands(child: Child, stdin: Box<dyn Write>, stdout: Box<dyn Read>) -> Client {
        let mut client = Client {
            stdin,
            lines: BufReader::new(stdout).lines(),
            child,
        };
        client.say(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}),
        );
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(super) fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    pub(super) fn ask(&mut self, id: usize, tool: &str, arguments: &Value) {
        self.say(&call(id, tool, arguments));
    }

    /// So many calls at once, with the ids from 1 on: the server may be gone after the first.
    pub(super) fn ask_all(&mut self, count: usize, tool: &str, arguments: &Value) {
        let calls = (1..=count).map(|id| format!("{}\n", call(id, tool, arguments)));
        self.stdin
            .write_all(calls.collect::<String>().as_bytes())
            .unwrap();
    }

    /// The same, again and again, as long as there is somebody who answers.
    pub(super) fn ask_until_it_ends(&mut self, count: usize, tool: &str, arguments: &Value) {
        let calls = (1..=count).map(|id| format!("{}\n", call(id, tool, arguments)));
        let calls: String = calls.collect();
        while self.stdin.write_all(calls.as_bytes()).is_ok() {
            for _ in 0..count {
                if self.lines.next().is_none() {
                    return;
                }
            }
        }
    }

    pub(super) fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    pub(super) fn answer(&mut self, id: usize) -> String {
        let own = format!("\"id\":{id},");
        loop {
            let line = self.next();
            if line.contains(&own) {
                return line;
            }
        }
    }

    pub(super) fn call(&mut self, id: usize, tool: &str) -> String {
        self.ask(id, tool, &json!({}));
        self.answer(id)
    }

    /// Has nothing more to say; gives all that is said to it until the server is gone.
    pub(super) fn end(mut self) -> Vec<String> {
        drop(self.stdin);
        let said = self.lines.map_while(Result::ok).collect();
        self.child.wait().unwrap();
        said
    }
}

fn spawn(scene: &Scene, command: &mut Command) -> Child {
    command
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn call(id: usize, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}
