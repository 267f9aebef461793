//! What a program was probably refused, read from what it printed.
//!
//! Nobody tells of files: a confined program sees one that it may not read as one that does not exist, and says so in its
//! own words. Nor does anybody tell of a connection where no network is. Here these words are held against the grant. It
//! is a guess, and worded as one.

use std::path::{Path, PathBuf};

use glee_core::permission::{Grant, Network, absolute};
use glee_sandbox::Tier;

use super::cage::is_system;
use super::denied::{Denial, MOST, Opens};
use super::place::has_own_root;

/// The end of what was said, where programs say what went wrong. Each word of it may be looked for on the disk.
const LOOKED_AT: usize = 16 << 10;

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
    "... failed: Operation not permitted",
    "connect EPERM",
];
/// How Python says the same, unless it is about a file: then a name follows.
const NOT_PERMITTED: &str = "[Errno 1] Operation not permitted";
/// Inside, the loopback is one of its own: whoever was granted something on the host's finds nobody there.
const NOBODY_LISTENS: &[&str] = &["Connection refused", "ECONNREFUSED"];
/// How an answer of the proxy begins: whoever has that has used it.
const PROXY_SAYS: &str = "glee: ";

/// What words are held against.
pub(super) struct Setting<'a> {
    pub(super) tier: Tier,
    pub(super) root: &'a Path,
    /// Where the program was started, or was to be.
    pub(super) cwd: &'a Path,
    pub(super) grant: &'a Grant,
    /// What is protected from whoever may write these.
    pub(super) protected: &'a dyn Fn(&[PathBuf]) -> Vec<PathBuf>,
}

/// The denials that the words of a failed call point to.
pub(super) fn from_words(said: &str, setting: &Setting<'_>) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    // Where nothing was confined, nothing of ours refused.
    if setting.tier == Tier::None {
        return found;
    }
    let start = said.ceil_char_boundary(said.len().saturating_sub(LOOKED_AT));
    for line in said[start..].lines() {
        if found.len() < MOST
            && let Some(denial) = setting.denial(line)
            && !found.contains(&denial)
        {
            found.push(denial);
        }
    }
    found
}

impl Setting<'_> {
    fn denial(&self, line: &str) -> Option<Denial> {
        let says = |words: &[&str]| words.iter().any(|it| line.contains(it));
        match &self.grant.network {
            Network::None if says(NETWORK) || says(NO_SOCKET) || line.ends_with(NOT_PERMITTED) => {
                return Some(Denial::NoNetwork);
            }
            Network::Hosts(hosts) if has_own_root(self.tier) && !line.contains(PROXY_SAYS) => {
                let names_private = hosts.iter().any(|it| !it.is_public());
                if says(NETWORK) || (names_private && says(NOBODY_LISTENS)) {
                    return Some(Denial::Bypass);
                }
            }
            _ => {}
        }
        let by = self.by(line)?;
        if says(READ_ONLY) {
            let path = self.path_in(line, |path| {
                is_new_or_there(path)
                    && (!covered(path, &self.grant.write)
                        || covered(path, &(self.protected)(&self.grant.write)))
            })?;
            let opens = self.opens_to_write(&path);
            let path = path.display().to_string();
            Some(Denial::Write { path, by, opens })
        } else if says(MISSING) {
            let path = self.path_in(line, |path| {
                path.exists()
                    && !covered(path, &self.grant.read)
                    && !covered(path, &self.grant.write)
            })?;
            let opens = opens(&path);
            let path = path.display().to_string();
            Some(Denial::Read { path, by, opens })
        } else {
            None
        }
    }

    /// Each layer refuses in its own way, and where only Landlock is, what is missing or cannot be written is so for everybody.
    fn by(&self, line: &str) -> Option<&'static str> {
        if line.contains("Permission denied") {
            Some("landlock")
        } else if !has_own_root(self.tier) {
            None
        } else if line.contains("Read-only file system") {
            Some("read-only mount")
        } else {
            Some("file view")
        }
    }

    fn opens_to_write(&self, path: &Path) -> Opens {
        // Some of it is open to whoever names it.
        if covered(path, &(self.protected)(&[path.to_owned()])) {
            return Opens::Never;
        }
        if path.exists() {
            return opens(path);
        }
        // A directory that is more than a part of the project, or git's or glee's own, is too much for a guess.
        let directory = path.parent().filter(|it| {
            let inside = it.strip_prefix(self.root).unwrap_or(Path::new(""));
            inside.components().next().is_some()
                && !inside.iter().any(|it| it == ".git" || it == ".glee")
        });
        match directory {
            Some(it) => Opens::Directory(it.display().to_string()),
            None => Opens::OnceThere,
        }
    }

    /// The first word of a line that names such a path. Programs put paths in quotes, or between colons.
    fn path_in(&self, line: &str, is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let words = line
            .split(['\'', '"', ':', ' ', '`', '‘', '’', '[', ']'])
            .filter(|it| it.contains('/') || it.contains('.'));
        words
            .map(|word| absolute(self.cwd, word))
            .filter(|path| path.as_os_str().len() > 1 && path != self.cwd && !is_system(path))
            .find(|path| is_it(path))
    }
}

/// What opens a path that is there.
fn opens(path: &Path) -> Opens {
    match path.canonicalize() {
        Ok(real) if real != path => Opens::WhereItLeads(real.display().to_string()),
        _ => Opens::Itself,
    }
}

fn covered(path: &Path, granted: &[PathBuf]) -> bool {
    granted.iter().any(|it| path.starts_with(it))
}

fn is_new_or_there(path: &Path) -> bool {
    path.exists() || path.parent().is_some_and(Path::exists)
}

#[cfg(test)]
mod tests {
    use super::super::cage::protected;
    use super::*;

    fn grant(network: Network) -> Grant {
        Grant {
            network,
            read: Vec::new(),
            write: Vec::new(),
        }
    }

    fn found_in(tier: Tier, said: &str, root: &Path, grant: &Grant) -> Vec<Denial> {
        let setting = Setting {
            tier,
            root,
            cwd: root,
            grant,
            protected: &|writable| protected(root, writable),
        };
        from_words(said, &setting)
    }

    fn found(said: &str, root: &Path, grant: &Grant) -> Vec<Denial> {
        found_in(Tier::Full, said, root, grant)
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
            let (path, opens) = (secret.clone(), Opens::Itself);
            assert_eq!(
                found(&line, &root, &grant),
                [Denial::Read { path, by, opens }],
                "{line}"
            );
        }
        let touch = "touch: cannot touch 'src/new': Read-only file system";
        assert!(
            found(touch, &root, &grant).is_empty(),
            "src does not exist, so nothing could be made in it"
        );
        std::fs::create_dir(root.join("src")).unwrap();
        let written = Denial::Write {
            path: root.join("src/new").display().to_string(),
            by: "read-only mount",
            opens: Opens::Directory(root.join("src").display().to_string()),
        };
        assert_eq!(found(touch, &root, &grant), [written]);
        assert!(found("cat: nothing.txt: No such file or directory", &root, &grant).is_empty());
    }

    #[test]
    fn what_opens_a_path() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().canonicalize().unwrap().join("project");
        for it in ["src", ".git/hooks", ".glee/prompts", ".glee/tools"] {
            std::fs::create_dir_all(root.join(it)).unwrap();
        }
        std::fs::write(root.join("real.txt"), "").unwrap();
        std::os::unix::fs::symlink("real.txt", root.join("link.txt")).unwrap();
        let real = root.join("real.txt").display().to_string();
        let leads = Opens::WhereItLeads(real);
        let nothing = grant(Network::None);
        let said = found("cat: link.txt: No such file or directory", &root, &nothing);
        assert!(matches!(&said[..], [Denial::Read { opens, .. }] if *opens == leads));
        let whole = Grant {
            write: vec![root.clone()],
            ..nothing.clone()
        };
        for (path, grant, opens) in [
            ("real.txt", &nothing, Opens::Itself),
            ("link.txt", &nothing, leads),
            ("new.txt", &nothing, Opens::OnceThere),
            ("../new.txt", &nothing, Opens::OnceThere),
            (".git/new", &nothing, Opens::OnceThere),
            (".git/hooks/new", &nothing, Opens::Never),
            (".git/hooks/new", &whole, Opens::Never),
            (".glee/prompts", &whole, Opens::Itself),
            (".glee/prompts/new", &nothing, Opens::OnceThere),
            (".glee/tools/new", &nothing, Opens::Never),
        ] {
            let line = format!("touch: cannot touch '{path}': Read-only file system");
            let found = found(&line, &root, grant);
            assert!(
                matches!(&found[..], [Denial::Write { opens: it, .. }] if *it == opens),
                "{path}: {found:?}"
            );
        }
    }

    #[test]
    fn each_tier_refuses_in_its_own_way() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().canonicalize().unwrap();
        std::fs::write(root.join("x.txt"), "").unwrap();
        let hosts = Network::Hosts(vec!["x.test".parse().unwrap()]);
        let found = |tier, line: &str| found_in(tier, line, &root, &grant(hosts.clone())).len();
        for (line, weaker) in [
            ("cat: x.txt: Permission denied", 1),
            ("cat: x.txt: No such file or directory", 0),
            ("touch: cannot touch 'x.txt': Read-only file system", 0),
            ("bash: connect: Network is unreachable", 0),
        ] {
            assert_eq!(found(Tier::Full, line), 1, "{line}");
            assert_eq!(found(Tier::FullWithoutCgroup, line), 1, "{line}");
            assert_eq!(found(Tier::Landlock, line), weaker, "{line}");
            assert_eq!(found(Tier::None, line), 0, "{line}");
        }
    }

    #[test]
    fn of_much_that_was_said_the_end_is_looked_at() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().canonicalize().unwrap();
        let line = |it: usize| format!("touch: cannot touch '{it}.txt': Read-only file system\n");
        let said: String = (0..10_000).map(line).collect();
        let found = found(&said, &root, &grant(Network::None));
        assert_eq!(found.len(), MOST);
        let name = |it: &Denial| match it {
            Denial::Write { path, .. } => path.rsplit_once('/').unwrap().1.to_owned(),
            _ => String::new(),
        };
        assert!(name(&found[0]).starts_with('9'), "{found:?}");
    }

    #[test]
    fn words_about_networks() {
        let root = PathBuf::from("/nowhere");
        let hosts = |it: &str| Network::Hosts(vec![it.parse().unwrap()]);
        let found = |line: &str, network: Network| found(line, &root, &grant(network));
        for line in [
            "bash: connect: Network is unreachable",
            "OSError: [Errno 101] Network is unreachable",
            "urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "curl: (6) Could not resolve host: x.test",
            "curl: (7) Failed to connect to 10.1.1.1 port 80 after 0 ms: Couldn't connect to server",
            "Connecting to 10.1.1.1:80... failed: Network is unreachable.",
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
            "Connecting to 10.1.1.1:9... failed: Operation not permitted.",
            "Error: connect EPERM 10.1.1.1:9 - Local (undefined:undefined)",
        ] {
            assert_eq!(found(line, Network::None), [Denial::NoNetwork], "{line}");
            assert!(found(line, hosts("x.test")).is_empty(), "{line}");
        }
        for about_something_else in [
            "PermissionError: [Errno 1] Operation not permitted: 'x'",
            "unshare: unshare failed: Operation not permitted",
        ] {
            assert!(found(about_something_else, Network::None).is_empty());
        }
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
