//! What a program was probably refused, read from what it printed.
//!
//! Nobody tells of files: a confined program sees one that it may not read as one that does not exist, and says so in its
//! own words. Nor does anybody tell of a connection where no network is. Here these words are held against the grant. It
//! is a guess, and worded as one.

use std::path::Path;

use glee_core::permission::{Grant, Network, absolute};

use super::cage::is_system;
use super::denied::Denial;

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
/// Of bash, curl, node, Python and wget, whether there is no network at all or only the proxy.
const NETWORK: &[&str] = &[
    "Network is unreachable",
    "ENETUNREACH",
    "Could not resolve",
    "unable to resolve host address",
    "Temporary failure in name resolution",
    "Name or service not known",
    "getaddrinfo EAI_AGAIN",
    "getaddrinfo ENOTFOUND",
    "curl: (7) Failed to connect",
];
/// Where no socket can be made.
const NO_SOCKET: &[&str] = &[
    "socket: Operation not permitted",
    "socket: Permission denied",
    "urlopen error [Errno 1] Operation not permitted",
    "failed: Operation not permitted",
    "connect EPERM",
];
/// How Python says the same, unless it is about a file: then a name follows.
const NOT_PERMITTED: &str = "[Errno 1] Operation not permitted";
/// Inside, the loopback is one of its own: whoever was granted something on the host's finds nobody there.
const NOBODY_LISTENS: &[&str] = &["Connection refused", "ECONNREFUSED"];
/// How an answer of the proxy begins: whoever has that has used it.
const PROXY_SAYS: &str = "glee: ";

/// The denials that the words of a failed call point to.
pub(super) fn from_words(said: &str, cwd: &Path, grant: &Grant) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    for line in said.lines() {
        if let Some(denial) = from_line(line, cwd, grant)
            && !found.contains(&denial)
        {
            found.push(denial);
        }
    }
    found
}

fn from_line(line: &str, cwd: &Path, grant: &Grant) -> Option<Denial> {
    let says = |words: &[&str]| words.iter().any(|it| line.contains(it));
    match &grant.network {
        Network::None if says(NETWORK) || says(NO_SOCKET) || line.ends_with(NOT_PERMITTED) => {
            return Some(Denial::NoNetwork);
        }
        Network::Hosts(hosts) if !line.contains(PROXY_SAYS) => {
            let names_private = hosts.iter().any(|it| !it.is_public());
            if says(NETWORK) || (names_private && says(NOBODY_LISTENS)) {
                return Some(Denial::Bypass);
            }
        }
        _ => {}
    }
    if says(READ_ONLY) {
        let path = path_in(line, cwd, |path| {
            is_new_or_there(path) && !covered(path, &grant.write)
        })?;
        let by = by(line);
        Some(Denial::Write { path, by })
    } else if says(MISSING) {
        let path = path_in(line, cwd, |path| {
            path.exists() && !covered(path, &grant.read) && !covered(path, &grant.write)
        })?;
        let by = by(line);
        Some(Denial::Read { path, by })
    } else {
        None
    }
}

/// Each layer refuses in its own way.
fn by(line: &str) -> &'static str {
    if line.contains("Read-only file system") {
        "read-only mount"
    } else if line.contains("Permission denied") {
        "landlock"
    } else {
        "file view"
    }
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
    use std::path::PathBuf;

    use super::*;

    fn grant(network: Network) -> Grant {
        Grant {
            network,
            read: Vec::new(),
            write: Vec::new(),
        }
    }

    #[test]
    fn words_about_files() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().canonicalize().unwrap();
        std::fs::write(root.join("private.txt"), "").unwrap();
        let grant = Grant {
            read: vec![root.join("src")],
            ..grant(Network::None)
        };
        let secret = root.join("private.txt").display().to_string();
        for (line, by) in [
            (
                format!("cat: {secret}: No such file or directory"),
                "file view",
            ),
            (
                "wc: private.txt: No such file or directory".to_owned(),
                "file view",
            ),
            (
                format!("FileNotFoundError: [Errno 2] No such file or directory: '{secret}'"),
                "file view",
            ),
            (
                format!("PermissionError: [Errno 13] Permission denied: '{secret}'"),
                "landlock",
            ),
        ] {
            let path = secret.clone();
            assert_eq!(
                from_words(&line, &root, &grant),
                [Denial::Read { path, by }],
                "{line}"
            );
        }
        let touch = "touch: cannot touch 'src/new': Read-only file system";
        assert!(
            from_words(touch, &root, &grant).is_empty(),
            "src does not exist, so nothing could be made in it"
        );
        std::fs::create_dir(root.join("src")).unwrap();
        let written = Denial::Write {
            path: root.join("src/new").display().to_string(),
            by: "read-only mount",
        };
        assert_eq!(from_words(touch, &root, &grant), [written]);
        assert!(
            from_words("cat: nothing.txt: No such file or directory", &root, &grant).is_empty()
        );
    }

    #[test]
    fn words_about_networks() {
        let root = PathBuf::from("/nowhere");
        let hosts = |it: &str| Network::Hosts(vec![it.parse().unwrap()]);
        let found = |line: &str, network: Network| from_words(line, &root, &grant(network));
        for line in [
            "bash: connect: Network is unreachable",
            "OSError: [Errno 101] Network is unreachable",
            "urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "curl: (6) Could not resolve host: x.test",
            "curl: (7) Failed to connect to 10.1.1.1 port 80 after 0 ms: Couldn't connect to server",
            "failed: Network is unreachable.",
            "wget: unable to resolve host address ‘x.test’",
            "Error: connect ENETUNREACH 10.1.1.1:80 - Local (0.0.0.0:0)",
            "Error: getaddrinfo EAI_AGAIN x.test",
        ] {
            assert_eq!(found(line, Network::None), [Denial::NoNetwork], "{line}");
            assert_eq!(found(line, hosts("x.test")), [Denial::Bypass], "{line}");
            assert!(found(line, Network::Public).is_empty(), "{line}");
            let by_proxy = format!("glee: {line}");
            assert!(found(&by_proxy, hosts("x.test")).is_empty(), "{line}");
        }
        for line in [
            "/usr/bin/bash: socket: Operation not permitted",
            "PermissionError: [Errno 1] Operation not permitted",
            "urllib.error.URLError: <urlopen error [Errno 1] Operation not permitted>",
            "failed: Operation not permitted.",
            "Error: connect EPERM 10.1.1.1:9 - Local (undefined:undefined)",
        ] {
            assert_eq!(found(line, Network::None), [Denial::NoNetwork], "{line}");
            assert!(found(line, hosts("x.test")).is_empty(), "{line}");
        }
        let about_a_file = "PermissionError: [Errno 1] Operation not permitted: 'x'";
        assert!(found(about_a_file, Network::None).is_empty());
        for line in [
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "Error: connect ECONNREFUSED 127.0.0.1:9",
        ] {
            assert_eq!(
                found(line, hosts("127.0.0.1:9")),
                [Denial::Bypass],
                "{line}"
            );
            assert_eq!(found(line, hosts("localhost")), [Denial::Bypass], "{line}");
            assert!(found(line, hosts("x.test")).is_empty(), "{line}");
        }
    }
}
