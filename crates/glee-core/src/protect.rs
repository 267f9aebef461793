//! Paths that decide what runs next. Whoever could write one of them would be free of everything else.

use std::path::{Component, Path};

/// Paths below a project's root that no tool may change, whatever it was granted.
pub const PROTECTED: &[&str] = &[
    ".glee/config.yml",
    ".glee/tools",
    ".glee/rules.yml",
    ".glee/approvals",
    ".glee/reviews",
    ".glee/audit",
    ".glee/bundles",
    ".git/hooks",
    ".git/config",
    ".mcp.json",
];

/// What a grant of the whole project does not open, and one that names it does.
pub const UNLESS_NAMED: &[&str] = &[".glee/prompts", ".glee/resources"];

/// What tools made by agents may not change either, whatever a person has granted them: all of glee's
/// own directory, and those from which editors and agents take what they run.
pub const FROM_AGENTS: &[&str] = &[
    ".glee", ".claude", ".codex", ".cursor", ".gemini", ".vscode",
];

/// What of the person's home a shell, git or their desktop runs by itself, or takes what it runs from.
pub const SHELL_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".config/fish",
    ".gitconfig",
    ".config/git",
    ".ssh",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".config/autostart",
    ".config/systemd",
];

/// Whether a path is one of those that a tool made by an agent may never be granted, or lies in one.
/// Case is folded, because there are disks that fold it.
pub fn from_agents(path: &Path, root: &Path, home: Option<&Path>) -> bool {
    let in_project = PROTECTED.iter().chain(FROM_AGENTS).map(|it| root.join(it));
    let in_home = home
        .into_iter()
        .flat_map(|home| SHELL_FILES.iter().map(|it| home.join(it)));
    let path = folded(path);
    in_project
        .chain(in_home)
        .any(|it| path.starts_with(&folded(&it)))
}

/// Whether a path is where a file tool may put, change or take away nothing: one of those, or one that
/// holds one, because what is moved with its directory is moved too. And nothing that is git's own: what
/// stands there decides what git runs.
pub fn from_file_tools(path: &Path, root: &Path, home: Option<&Path>) -> bool {
    let in_project = PROTECTED.iter().chain(FROM_AGENTS).map(|it| root.join(it));
    let in_home = home
        .into_iter()
        .flat_map(|home| SHELL_FILES.iter().map(|it| home.join(it)));
    let path = folded(path);
    let inside = path.get(folded(root).len()..).unwrap_or_default();
    inside.iter().any(|it| it == ".git")
        || in_project.chain(in_home).any(|it| {
            let it = folded(&it);
            path.starts_with(&it) || it.starts_with(&path)
        })
}

fn folded(path: &Path) -> Vec<String> {
    path.components()
        .filter(|it| !matches!(it, Component::CurDir))
        .map(|it| it.as_os_str().to_string_lossy().to_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_never_get() {
        let (root, home) = (Path::new("/home/ada/p"), Path::new("/home/ada"));
        let never = |path: &str| from_agents(Path::new(path), root, Some(home));
        for path in [
            "/home/ada/p/.glee",
            "/home/ada/p/.glee/",
            "/home/ada/p/.GLEE/tools/x",
            "/home/ada/p/.git/hooks/pre-commit",
            "/home/ada/p/.git//config",
            "/home/ada/p/./.mcp.json",
            "/home/ada/p/.vscode/tasks.json",
            "/home/ada/.bashrc",
            "/home/ada/.config/fish/config.fish",
            "/home/ada/.config/fish/conf.d/x.fish",
            "/home/ada/.zlogin",
            "/home/ada/.bash_aliases",
            "/home/ada/.gitconfig",
            "/home/ada/.config/git/config",
        ] {
            assert!(never(path), "{path}");
        }
        let root = Path::new("/home/ada/p");
        let closed = |path: &str| from_file_tools(Path::new(path), root, Some(home));
        for path in [
            "/home/ada/p/.Glee/x",
            "/home/ada/p",
            "/home/ada/p/.git",
            "/home/ada/p/sub/.GIT/index",
            "/home/ada/.config",
            "/home/ada/.bashrc",
        ] {
            assert!(closed(path), "{path}");
        }
        assert!(!closed("/home/ada/p/.gitignore") && !closed("/home/ada/p/src/git"));
        // What holds one of them is granted without it.
        for path in [
            "/home/ada/p",
            "/home/ada/p/.git",
            "/home/ada",
            "/home/ada/p/.gleet",
        ] {
            assert!(!never(path), "{path}");
        }
    }
}
