//! What a program was probably refused, read from what it printed.
//!
//! A confined program sees a file it may not read as a file that does not exist, and says so in its
//! own words. Here these words are held against the grant. It is a guess, and worded as one.

use std::path::Path;

use glee_core::permission::{Grant, Network, absolute};
use serde_json::{Value, json};

use super::cage::is_system;

/// Most denials told of one call.
const MOST: usize = 5;

const MISSING: &[&str] = &[
    "No such file or directory",
    "does not exist",
    "cannot open",
    "Permission denied",
];
const READ_ONLY: &[&str] = &[
    "Read-only file system",
    "cannot create",
    "cannot touch",
    "cannot remove",
];
const NETWORK: &[&str] = &[
    "Network is unreachable",
    "Could not resolve",
    "Temporary failure in name resolution",
    "Name or service not known",
    "socket: Operation not permitted",
    "socket: Permission denied",
];

/// The denials that the words of a failed call point to.
pub(super) fn find(said: &str, cwd: &Path, grant: &Grant) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for line in said.lines() {
        let says = |words: &[&str]| words.iter().any(|it| line.contains(it));
        let denied = if says(NETWORK) && grant.network == Network::None {
            Some(json!({
                "what": "network", "permission": "network",
                "grant": "network: {hosts: [the host it needs]}",
            }))
        } else if says(READ_ONLY) {
            path_in(line, cwd, |path| {
                is_new_or_there(path) && !covered(path, &grant.write)
            })
            .map(|path| on_path(&path, "fs.write"))
        } else if says(MISSING) {
            path_in(line, cwd, |path| {
                path.exists() && !covered(path, &grant.read) && !covered(path, &grant.write)
            })
            .map(|path| on_path(&path, "fs.read"))
        } else {
            None
        };
        if let Some(denied) = denied
            && !found.contains(&denied)
        {
            found.push(denied);
        }
    }
    found.truncate(MOST);
    found
}

/// The denials in one line.
pub(super) fn hint(denied: &[Value]) -> Option<String> {
    let first = denied.first()?;
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    Some(format!(
        "it seems that the sandbox refused {}; if the tool needs it, grant `{}`",
        text("what"),
        text("grant")
    ))
}

fn on_path(path: &str, permission: &str) -> Value {
    json!({"what": path, "permission": permission, "grant": format!("{permission}: [{path}]")})
}

fn covered(path: &Path, granted: &[std::path::PathBuf]) -> bool {
    granted.iter().any(|it| path.starts_with(it))
}

fn is_new_or_there(path: &Path) -> bool {
    path.exists() || path.parent().is_some_and(Path::exists)
}

/// The first word of a line that names such a path. Programs put paths in quotes, or between colons.
fn path_in(line: &str, cwd: &Path, is_it: impl Fn(&Path) -> bool) -> Option<String> {
    let words = line
        .split(['\'', '"', ':', ' ', '`', '‘', '’', '[', ']'])
        .filter(|it| it.contains('/') || it.contains('.'));
    words
        .map(|word| absolute(cwd, word))
        .filter(|path| path.as_os_str().len() > 1 && *path != cwd && !is_system(path))
        .find(|path| is_it(path))
        .map(|path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_programs() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().canonicalize().unwrap();
        std::fs::write(root.join("private.txt"), "").unwrap();
        let grant = Grant {
            network: Network::None,
            read: vec![root.join("src")],
            write: vec![],
        };
        let secret = root.join("private.txt").display().to_string();
        for line in [
            format!("cat: {secret}: No such file or directory"),
            "wc: private.txt: No such file or directory".to_owned(),
            format!("FileNotFoundError: [Errno 2] No such file or directory: '{secret}'"),
        ] {
            let found = find(&line, &root, &grant);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(
                (found[0]["what"].as_str(), found[0]["permission"].as_str()),
                (Some(secret.as_str()), Some("fs.read"))
            );
        }
        let found = find(
            "touch: cannot touch 'src/new': Read-only file system",
            &root,
            &Grant {
                write: vec![],
                ..grant.clone()
            },
        );
        assert!(
            found.is_empty(),
            "src does not exist, so nothing could be made in it"
        );
        std::fs::create_dir(root.join("src")).unwrap();
        let found = find(
            "touch: cannot touch 'src/new': Read-only file system",
            &root,
            &grant,
        );
        assert_eq!(found[0]["permission"], "fs.write");
        assert_eq!(
            find("curl: (6) Could not resolve host: x.test", &root, &grant)[0]["permission"],
            "network"
        );
        assert!(find("cat: nothing.txt: No such file or directory", &root, &grant).is_empty());
    }
}
