//! The clients glee knows, and where each keeps its list of servers.

use std::path::{Path, PathBuf};

use anyhow::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Client {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Project,
    User,
}

pub(super) enum Format {
    Json {
        /// The key under which servers stand.
        key: &'static str,
        /// Whether an entry says how it is reached.
        typed: bool,
    },
    Toml,
}

/// What the client is told to start.
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl Client {
    pub(super) fn name(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Cursor => "cursor",
            Client::Vscode => "vscode",
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Client::Claude | Client::Gemini | Client::Cursor => Format::Json {
                key: "mcpServers",
                typed: false,
            },
            Client::Vscode => Format::Json {
                key: "servers",
                typed: true,
            },
            Client::Codex => Format::Toml,
        }
    }

    pub(super) fn config(self, place: Place, root: &Path) -> anyhow::Result<PathBuf> {
        let (base, path) = match place {
            Place::Project => (
                root.to_owned(),
                match self {
                    Client::Claude => ".mcp.json",
                    Client::Codex => ".codex/config.toml",
                    Client::Gemini => ".gemini/settings.json",
                    Client::Cursor => ".cursor/mcp.json",
                    Client::Vscode => ".vscode/mcp.json",
                },
            ),
            Place::User => {
                let home = std::env::var_os("HOME").context("HOME is not set")?;
                let moved = std::env::var_os("CODEX_HOME").filter(|_| self == Client::Codex);
                match moved {
                    Some(codex) => (PathBuf::from(codex), "config.toml"),
                    None => (
                        PathBuf::from(home),
                        match self {
                            Client::Claude => ".claude.json",
                            Client::Codex => ".codex/config.toml",
                            Client::Gemini => ".gemini/settings.json",
                            Client::Cursor => ".cursor/mcp.json",
                            Client::Vscode => ".config/Code/User/mcp.json",
                        },
                    ),
                }
            }
        };
        Ok(base.join(path))
    }

    /// How the entry names the project: in a config that is shared, so that it holds on every machine.
    pub(super) fn root(self, place: Place, root: &Path) -> String {
        match (place, self) {
            (Place::User, _) => root.display().to_string(),
            (Place::Project, Client::Claude) => "${CLAUDE_PROJECT_DIR:-.}".to_owned(),
            (Place::Project, Client::Cursor | Client::Vscode) => "${workspaceFolder}".to_owned(),
            // These start their servers in the project.
            (Place::Project, Client::Codex | Client::Gemini) => ".".to_owned(),
        }
    }
}
