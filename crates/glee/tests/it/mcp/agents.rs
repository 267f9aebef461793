//! Real agents, with a scripted stand-in for their model: it asks for a tool, glee runs it, and the
//! result reaches the model. They are large, so `scripts/test --long` installs and runs them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use super::clients::{installed, node};
use super::server::{Served, home};
use crate::support::{GLEE, Scene, is_long, repository, stderr, stdout};

const TOOL: &str = "\
name: shout
description: Say something louder
kind: command
version: 1
inputs:
  schema:
    type: object
    required: [words]
    properties: {words: {type: string, description: What to say}}
outputs: {format: text}
exec: {command: {entrypoint: tr, args: ['a-z', 'A-Z'], stdin: '${words}'}}
permissions: {}
approval: {required: false}
";

/// The model, as far as these agents can tell. It ends when it is dropped.
struct StandIn {
    child: Child,
    _stdin: ChildStdin,
    port: String,
}

impl StandIn {
    fn start() -> StandIn {
        let script = repository().join("crates/glee/tests/clients/agents/stand_in.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args(["shout", r#"{"words": "the answer is forty-two"}"#])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        StandIn {
            _stdin: child.stdin.take().unwrap(),
            child,
            port: port.trim().to_owned(),
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How an agent finds glee: a command, or an address and a header.
enum Way<'a> {
    Stdio(&'a Path),
    Http(&'a Served),
}

/// Gives an agent its home, with whatever it reads there, and its command; then lets it work.
fn check(agent: impl Fn(&StandIn, &Way, &Path) -> Command) {
    if !is_long() {
        return;
    }
    let scene = Scene::new();
    scene.write(".glee/tools/shout/tool.yml", TOOL);
    let served = Served::guarded(&scene);
    for way in [Way::Stdio(&scene.root), Way::Http(&served)] {
        let model = StandIn::start();
        let output = agent(&model, &way, &home(&scene))
            .current_dir(&scene.root)
            .env("HOME", home(&scene))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = stdout(&output);
        assert!(
            said.contains("the tool said:") && said.contains("THE ANSWER IS FORTY-TWO"),
            "{said}{}{}",
            stderr(&output),
            served.said()
        );
    }
}

/// A clean environment with the node they need, and one of the agents.
fn agent(name: &str) -> Command {
    let mut command = Command::new(installed(&format!("agents/node_modules/.bin/{name}")));
    let node = node();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env_clear().env(
        "PATH",
        format!("{}:{path}", node.parent().unwrap().display()),
    );
    command
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The entry of the server in the JSON files of two of the agents, which differ in one word.
fn entry(way: &Way, url: &str) -> Value {
    match way {
        Way::Stdio(root) => json!({"command": GLEE, "args": ["mcp", "--root", root]}),
        Way::Http(served) => json!({
            url: served.url(),
            "headers": {"Authorization": format!("Bearer {}", served.token.as_deref().unwrap())},
        }),
    }
}

#[test]
fn codex() {
    check(|model, way, home| {
        let server = match way {
            Way::Stdio(root) => {
                format!("command = {GLEE:?}\nargs = [\"mcp\", \"--root\", {root:?}]")
            }
            Way::Http(served) => {
                format!("url = {:?}\nbearer_token_env_var = \"TOKEN\"", served.url())
            }
        };
        // Without `required` it may ask the model before it knows the tools.
        let config = format!(
            r#"
model = "stand-in"
model_provider = "stand_in"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stand_in]
name = "stand-in"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "KEY"
[mcp_servers.glee]
{server}
required = true
default_tools_approval_mode = "approve"
"#,
            port = model.port
        );
        write(&home.join(".codex/config.toml"), &config);
        let mut command = agent("codex");
        command
            .args(["exec", "--skip-git-repo-check", "use the tool"])
            .env("KEY", "none");
        if let Way::Http(served) = way {
            command.env("TOKEN", served.token.as_deref().unwrap());
        }
        command
    });
}

#[test]
fn claude_code() {
    check(|model, way, home| {
        let mut entry = entry(way, "url");
        if let Way::Http(_) = way {
            entry["type"] = json!("http");
        }
        let config = home.join("mcp.json");
        write(&config, &json!({"mcpServers": {"glee": entry}}).to_string());
        let mut command = agent("claude");
        command
            .args(["--print", "use the tool", "--strict-mcp-config"])
            .args(["--allowedTools", "mcp__glee", "--mcp-config"])
            .arg(config)
            .env(
                "ANTHROPIC_BASE_URL",
                format!("http://127.0.0.1:{}", model.port),
            )
            .env("ANTHROPIC_API_KEY", "none")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            // Otherwise the model would have to search for the tool first.
            .env("ENABLE_TOOL_SEARCH", "false");
        command
    });
}

#[test]
fn gemini_cli() {
    check(|model, way, home| {
        let mut entry = entry(way, "httpUrl");
        entry["trust"] = json!(true);
        let settings = json!({
            "mcpServers": {"glee": entry},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
            "privacy": {"usageStatisticsEnabled": false},
        });
        write(&home.join(".gemini/settings.json"), &settings.to_string());
        let mut command = agent("gemini");
        command
            .args(["--approval-mode", "yolo", "--skip-trust"])
            .args(["--model", "gemini-2.5-flash", "--prompt", "use the tool"])
            .env(
                "GOOGLE_GEMINI_BASE_URL",
                format!("http://127.0.0.1:{}", model.port),
            )
            .env("GEMINI_API_KEY", "none");
        command
    });
}
