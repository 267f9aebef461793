//! `glee init`: a project that works at once.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::status::Status;
use super::{Session, print};

const CONFIG: &str = "\
# What holds for every tool of this project. `glee schema config` tells all that can stand here.

# sandbox: required           # or best-effort, or off: what to do where the kernel cannot hold a tool
#
# builtins:                   # tools that come with glee: bundles core, system, dev, or single ones
#   enable: [core]
#
# security:
#   max_permissions:          # the most that tools made by agents may ask for; nothing unless given
#     network: {hosts: [api.example.com]}
#     fs: {read: [\".\"], write: []}
#     secrets: []
";

const HELLO: &str = "\
name: hello
description: Greet somebody
kind: command
version: 1

inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      name:
        type: string
        description: Whom to greet
        default: world

outputs:
  format: text

exec:
  command:
    entrypoint: printf
    args: ['Hello, %s!\\n', '${name}']

permissions:
  network: false
  fs: {read: [], write: []}
  secrets: {}

approval:
  required: false

examples:
  - description: Greet Ada
    params: {name: Ada}
    expected_output: Hello, Ada!
";

/// Make this directory a project: `.glee/` with a config and a first tool that runs.
///
/// What is there already is left as it is.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory [default: --root, or this one]
    directory: Option<PathBuf>,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let root = args
        .directory
        .clone()
        .or(session.root.clone())
        .unwrap_or_else(|| ".".into());
    let mut written = Vec::new();
    for (path, text) in [
        (".glee/config.yml", CONFIG),
        (".glee/.gitignore", "/audit/\n"),
        (".glee/tools/hello/tool.yml", HELLO),
    ] {
        if write_new(&root.join(path), text)? {
            written.push(path);
        }
    }
    if session.json {
        print::json(
            &json!({"root": root.canonicalize()?.display().to_string(), "written": written}),
        )?;
    } else if written.is_empty() {
        print::out("this is a project already; nothing was changed")?;
    } else {
        print::out(&format!(
            "wrote {}\nnext: `glee run hello -p name=Ada`",
            written.join(", ")
        ))?;
    }
    Ok(Status::Ok)
}

/// Writes a file that is not there yet; `false` when it is.
pub(super) fn write_new(path: &Path, text: &str) -> anyhow::Result<bool> {
    let place = || path.display().to_string();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(place)?;
    }
    match fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
    {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(place)?;
            Ok(true)
        }
        Err(err) if err.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(err) => Err(err).with_context(place),
    }
}
