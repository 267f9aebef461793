//! The clients glee knows, and where each keeps its list of servers.

use std::ffi::OsString;
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
        match place {
            Place::Project => Ok(root.join(match self {
                Client::Claude => ".mcp.json",
                Client::Codex => ".codex/config.toml",
                Client::Gemini => ".gemini/settings.json",
                Client::Cursor => ".cursor/mcp.json",
                Client::Vscode => ".vscode/mcp.json",
            })),
            Place::User => self
                .own_config(|name| std::env::var_os(name).filter(|it| !it.is_empty()))
                .context("HOME is not set"),
        }
    }

    /// Some look elsewhere when they are told to.
    fn own_config(self, told: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let (moved, home, file) = match self {
            Client::Claude => (Some("CLAUDE_CONFIG_DIR"), "", ".claude.json"),
            Client::Codex => (Some("CODEX_HOME"), ".codex", "config.toml"),
            Client::Gemini => (None, ".gemini", "settings.json"),
            Client::Cursor => (None, ".cursor", "mcp.json"),
            Client::Vscode => (Some("XDG_CONFIG_HOME"), ".config", "Code/User/mcp.json"),
        };
        let base = match moved.and_then(&told) {
            Some(moved) => PathBuf::from(moved),
            None => PathBuf::from(told("HOME")?).join(home),
        };
        Some(base.join(file))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_client_keeps_its_own_config() {
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/a"));
        let moved = |name: &str| match name {
            "HOME" => Some("/home/a".into()),
            "CLAUDE_CONFIG_DIR" => Some("/claude".into()),
            "CODEX_HOME" => Some("/codex".into()),
            "XDG_CONFIG_HOME" => Some("/xdg".into()),
            _ => None,
        };
        for (client, usually, then) in [
            (
                Client::Claude,
                "/home/a/.claude.json",
                "/claude/.claude.json",
            ),
            (
                Client::Codex,
                "/home/a/.codex/config.toml",
                "/codex/config.toml",
            ),
            (
                Client::Gemini,
                "/home/a/.gemini/settings.json",
                "/home/a/.gemini/settings.json",
            ),
            (
                Client::Cursor,
                "/home/a/.cursor/mcp.json",
                "/home/a/.cursor/mcp.json",
            ),
            (
                Client::Vscode,
                "/home/a/.config/Code/User/mcp.json",
                "/xdg/Code/User/mcp.json",
            ),
        ] {
            assert_eq!(client.own_config(home).unwrap(), Path::new(usually));
            assert_eq!(client.own_config(moved).unwrap(), Path::new(then));
            assert_eq!(client.own_config(|_| None), None);
        }
    }
}
