//! `glee connect`: the entry for glee in the config of an MCP client, and nothing else in it.

mod client;
mod json;
mod toml;

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::json;

use super::status::Status;
use super::{Session, print};
use client::{Client, Entry, Format, Place};

/// The name of glee's entry among a client's servers.
const NAME: &str = "glee";

/// Tell an MCP client about this project's tools.
///
/// Adds one entry to the client's own config and leaves every other byte of it as it is. The client
/// then starts `glee mcp` by itself.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee connect claude            # for everybody who works in this project (.mcp.json)\n  glee connect codex --user      # for you, wherever you work\n  glee connect vscode --print    # only show what would be added, and where\n  glee connect cursor --remove"
)]
pub(super) struct Args {
    #[arg(value_enum)]
    client: Client,

    /// In the config of this project [default]
    #[arg(long, conflicts_with = "user")]
    project: bool,

    /// In your own config
    #[arg(long)]
    user: bool,

    /// Show the entry and where it belongs, and change nothing
    #[arg(long, conflicts_with = "remove")]
    print: bool,

    /// Take the entry out again
    #[arg(long)]
    remove: bool,
}

pub(super) fn run(session: &Session, args: &Args) -> anyhow::Result<Status> {
    let project = session.project()?;
    let place = if args.user {
        Place::User
    } else {
        Place::Project
    };
    let path = args.client.config(place, project.root())?;
    let entry = Entry {
        command: program(place)?,
        args: vec![
            "mcp".to_owned(),
            "--root".to_owned(),
            args.client.root(place, project.root()),
        ],
    };
    if args.print {
        let shown = path.strip_prefix(project.root()).unwrap_or(&path);
        return show(session, args.client, shown, &entry);
    }
    let before = read(&path)?;
    let wanted = (!args.remove).then_some(&entry);
    let after = match args.client.format() {
        Format::Json { key, typed } => json::edit(&before, key, typed, wanted),
        Format::Toml => toml::edit(&before, wanted),
    };
    let after = after.with_context(|| {
        format!(
            "{} was left as it is; `glee connect {} --print` shows what belongs there",
            path.display(),
            args.client.name()
        )
    })?;
    let changed = after != before;
    if changed {
        replace(&path, &after).with_context(|| path.display().to_string())?;
    }
    let word = match (args.remove, changed) {
        (false, true) => "added",
        (false, false) => "there already",
        (true, true) => "removed",
        (true, false) => "not there",
    };
    if session.json {
        print::json(&json!({"path": path, "changed": changed}))?;
    } else {
        let shown = path.strip_prefix(project.root()).unwrap_or(&path);
        print::out(&format!("{word}: {NAME} in {}", shown.display()))?;
    }
    Ok(Status::Ok)
}

fn show(session: &Session, client: Client, path: &Path, entry: &Entry) -> anyhow::Result<Status> {
    let text = match client.format() {
        Format::Json { key, typed } => json::edit("", key, typed, Some(entry))?,
        Format::Toml => toml::edit("", Some(entry))?,
    };
    if session.json {
        print::json(&json!({"path": path, "entry": text}))?;
    } else {
        print::out(&format!("# in {}\n{text}", path.display()))?;
    }
    Ok(Status::Ok)
}

/// What the client starts. In a config that others share, `glee` as they find it; in one's own, this
/// very program.
fn program(place: Place) -> anyhow::Result<String> {
    match place {
        Place::Project => Ok(NAME.to_owned()),
        Place::User => {
            let path = std::env::current_exe()?;
            let text = path.to_str().context("glee's own path is not UTF-8")?;
            Ok(text.to_owned())
        }
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(err) => bail!("{}: {err}", path.display()),
    }
}

/// Whole or not at all; the file keeps its mode, and a link stays a link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path: PathBuf = match path.canonicalize() {
        Ok(path) => path,
        Err(_) if path.is_symlink() => return Err(io::Error::other("the link leads nowhere")),
        Err(_) => path.to_owned(),
    };
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    let permissions = match fs::metadata(&path) {
        Ok(found) if found.permissions().readonly() => {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(found) => found.permissions(),
        // As other programs make files; a config of the project is for all who work in it.
        Err(_) => Permissions::from_mode(0o644),
    };
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
