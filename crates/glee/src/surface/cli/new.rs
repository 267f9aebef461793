//! `glee new`: a tool to start from, which lints and runs as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::bail;
use glee_core::name;
use serde_json::json;

use super::init::write_new;
use super::status::Status;
use super::{Session, print};

/// Write a new tool to start from: `.glee/tools/NAME/tool.yml` and what it runs.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee new command repo_scan\n  glee new python repo_stats\n  glee new http weather"
)]
pub(super) struct Args {
    /// How the tool runs
    #[arg(value_enum)]
    kind: Kind,
    /// The tool's name
    name: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A request that glee makes
    Http,
    /// A program or script
    Command,
    /// A Python function
    Python,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    name::check(&args.name)?;
    let project = session.project()?;
    let directory = project.tools().join(&args.name);
    let manifest = directory.join("tool.yml");
    let (kind, exec, network, extra) = match args.kind {
        Kind::Http => ("http", HTTP, "{hosts: [api.example.com]}", None),
        Kind::Command => ("command", COMMAND, "false", Some(("run.sh", SCRIPT))),
        Kind::Python => ("python", PYTHON, "false", Some(("main.py", MODULE))),
    };
    let text = MANIFEST
        .replace("<exec>", exec)
        .replace("<kind>", kind)
        .replace("<network>", network)
        .replace(
            "<format>",
            if matches!(args.kind, Kind::Command) {
                "text"
            } else {
                "json"
            },
        )
        .replace("<name>", &args.name);
    if !write_new(&manifest, &text)? {
        bail!(
            "there is a tool `{}` already: {}",
            args.name,
            manifest.display()
        );
    }
    let mut written = vec![format!(".glee/tools/{}/tool.yml", args.name)];
    if let Some((file, text)) = extra {
        let path = directory.join(file);
        if write_new(&path, text)? {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            written.push(format!(".glee/tools/{}/{file}", args.name));
        }
    }
    match session.json {
        true => print::json(&json!({"written": written}))?,
        false => print::out(&format!(
            "wrote {}\nnext: edit it, then `glee lint` and `glee run {}`",
            written.join(", "),
            args.name
        ))?,
    }
    Ok(Status::Ok)
}

const MANIFEST: &str = "\
name: <name>
description: Say what the tool does, for the agent that must decide whether to use it
kind: <kind>
version: 1

inputs:
  schema:
    type: object
    additionalProperties: false
    required: [text]
    properties:
      text:
        type: string
        description: What the tool works on

outputs:
  format: <format>

<exec>
permissions:
  network: <network>
  fs: {read: [.glee/tools/<name>], write: []}
  secrets: {}

approval:
  required: false

examples:
  - description: A first call
    params: {text: hello}
";

const HTTP: &str = "\
exec:
  http:
    method: GET
    url: https://api.example.com/v1/search
    query:
      q: ${text}
    # headers:
    #   Authorization: Bearer ${API_KEY}     # declare API_KEY in permissions.secrets
    # response:
    #   json_path: results
";

const COMMAND: &str = "\
exec:
  command:
    entrypoint: .glee/tools/<name>/run.sh
    args: ['--', '${text}']
";

const PYTHON: &str = "\
exec:
  python:
    module: main
    function: run
    kwargs: {text: '${text}'}
    cwd: .glee/tools/<name>
";

const SCRIPT: &str = "\
#!/bin/sh
# Arguments come as words, never through a shell; `--` ends the options.
shift
printf '%s\\n' \"$1\"
";

const MODULE: &str = "\
def run(text):
    # What is returned is the result; what is printed is not.
    return {\"text\": text, \"length\": len(text)}
";
