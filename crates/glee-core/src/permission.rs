//! What a tool asks for, what it may be given at most, and what one call is given.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::host::HostPattern;
use crate::port::Files;
use crate::protect;

/// Asked, as the author wrote it: paths may be relative to the project's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    pub network: Network,
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub secrets: BTreeMap<String, SecretNeed>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    None,
    Hosts(Vec<HostPattern>),
    /// Any public address.
    Public,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::None => f.write_str("none"),
            Network::Public => f.write_str("any public address"),
            Network::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                f.write_str(&hosts.join(", "))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretNeed {
    Required,
    Optional,
}

/// The most a tool made by an agent may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    pub network: Network,
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub secrets: Vec<String>,
}

/// Given to one call: absolute paths, nothing the author did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub network: Network,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl Permissions {
    /// What these permissions ask beyond the ceiling, each in the words of a manifest. Paths are
    /// compared by name and again where they lead, so that neither `..` nor a link gets past.
    pub fn beyond(&self, ceiling: &Ceiling, root: &Path, files: &dyn Files) -> Vec<String> {
        let mut excess = self.network.beyond(&ceiling.network);
        let inside = |asked: &str, allowed: &[String]| {
            let asked = absolute(root, asked);
            let real = files.resolve(&asked);
            allowed.iter().any(|it| {
                let allowed = absolute(root, it);
                asked.starts_with(&allowed) && real.starts_with(files.resolve(&allowed))
            })
        };
        for path in &self.read {
            if is_pattern(path) || !inside(path, &ceiling.read) {
                excess.push(format!("read {path}"));
            }
        }
        for path in &self.write {
            let asked = absolute(root, path);
            let never = |it: &Path| protect::from_agents(it, root, files.home());
            if never(&asked) || never(&files.resolve(&asked)) {
                excess.push(format!("write {path} (no agent's tool may write there)"));
            } else if is_pattern(path) || !inside(path, &ceiling.write) {
                excess.push(format!("write {path}"));
            }
        }
        let extra = self
            .secrets
            .keys()
            .filter(|it| !ceiling.secrets.contains(it));
        excess.extend(extra.map(|it| format!("secret {it}")));
        excess
    }

    /// These permissions as the most that others may be.
    pub fn as_ceiling(&self) -> Ceiling {
        Ceiling {
            network: self.network.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            secrets: self.secrets.keys().cloned().collect(),
        }
    }

    pub fn grant(&self, root: &Path) -> Grant {
        Grant {
            network: self.network.clone(),
            read: self.read.iter().map(|it| absolute(root, it)).collect(),
            write: self.write.iter().map(|it| absolute(root, it)).collect(),
        }
    }
}

impl Network {
    fn beyond(&self, ceiling: &Network) -> Vec<String> {
        let asked = match self {
            Network::None => return Vec::new(),
            Network::Public if *ceiling == Network::Public => return Vec::new(),
            Network::Public => return vec!["network: true".to_owned()],
            Network::Hosts(asked) => asked,
        };
        let is_inside = |it: &HostPattern| match ceiling {
            Network::None => false,
            // An entry that names an address opens it also where it is private.
            Network::Public => it.is_public(),
            Network::Hosts(allowed) => allowed.iter().any(|allowed| allowed.holds(it)),
        };
        let extra = asked.iter().filter(|it| !is_inside(it));
        extra.map(|it| format!("network host {it}")).collect()
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |it: &[String]| match it.is_empty() {
            true => "nothing".to_owned(),
            false => it.join(", "),
        };
        write!(
            f,
            "network: {}; read: {}; write: {}; secrets: {}",
            self.network,
            listed(&self.read),
            listed(&self.write),
            listed(&self.secrets)
        )
    }
}

/// Paths are no patterns. One that looks like a pattern is not what its author takes it for.
fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// A manifest's path as an absolute one: relative ones start at the project's root, and `.` and
/// `..` are taken out by name, before any link is followed.
pub fn absolute(root: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for component in root.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Anywhere;

    #[test]
    fn absolute_paths() {
        let root = Path::new("/p/root");
        for (path, expected) in [
            (".", "/p/root"),
            ("src/", "/p/root/src"),
            ("../other", "/p/other"),
            ("/etc/x/../y", "/etc/y"),
            ("a/../../../../..", "/"),
        ] {
            assert_eq!(absolute(root, path), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn beyond_the_ceiling() {
        let root = Path::new("/p/root");
        let ceiling = Ceiling {
            read: vec![".".into()],
            ..Ceiling::default()
        };
        let asked = Permissions {
            network: Network::Hosts(vec!["x.test".parse().unwrap()]),
            read: vec![
                "src".into(),
                "../root-evil".into(),
                "/etc".into(),
                "src/../..".into(),
            ],
            write: vec!["out".into()],
            secrets: [("KEY".to_owned(), SecretNeed::Optional)].into(),
        };
        assert_eq!(
            asked.beyond(&ceiling, root, &Anywhere),
            [
                "network host x.test",
                "read ../root-evil",
                "read /etc",
                "read src/../..",
                "write out",
                "secret KEY"
            ]
        );
        let public = Permissions {
            network: Network::Public,
            ..Permissions::default()
        };
        assert_eq!(public.beyond(&ceiling, root, &Anywhere), ["network: true"]);
        assert!(
            Permissions::default()
                .beyond(&Ceiling::default(), root, &Anywhere)
                .is_empty()
        );
    }
    /// A machine on which `link` leads out of the project and `src` is where it says.
    struct Linked;

    impl Files for Linked {
        fn home(&self) -> Option<&Path> {
            Some(Path::new("/home/ada"))
        }

        fn resolve(&self, path: &Path) -> PathBuf {
            match path.strip_prefix("/p/root/src/link") {
                Ok(rest) => Path::new("/etc").join(rest),
                Err(_) => path.to_owned(),
            }
        }
    }

    #[test]
    fn no_spelling_of_a_path_gets_past_the_ceiling() {
        let root = Path::new("/p/root");
        let ceiling = Ceiling {
            read: vec!["src/".into()],
            write: vec!["./out".into(), ".glee/".into()],
            ..Ceiling::default()
        };
        let excess = |read: &[&str], write: &[&str]| {
            let asked = Permissions {
                read: read.iter().map(|it| (*it).to_owned()).collect(),
                write: write.iter().map(|it| (*it).to_owned()).collect(),
                ..Permissions::default()
            };
            asked.beyond(&ceiling, root, &Linked).len()
        };
        for inside in ["src", "src/", "./src//a", "/p/root/src/a", "src/a/../b"] {
            assert_eq!(excess(&[inside], &[]), 0, "{inside}");
        }
        for outside in [
            "..",
            ".",
            "./.././root",
            "src/..",
            "src/../srcs",
            "srcs",
            "SRC",
            "/",
            "//",
            "/p/root",
            "src/link",
            "src/link/x",
            "src/**",
            "*",
            "src/[a]",
        ] {
            assert_eq!(excess(&[outside], &[]), 1, "{outside}");
        }
        assert_eq!(excess(&[], &["out", "out/deep"]), 0);
        for never in [
            ".glee",
            ".glee/",
            ".glee/cache",
            "out/../.glee/tools",
            "/p/root/.glee/reviews",
            "/home/ada/.bashrc",
        ] {
            assert_eq!(excess(&[], &[never]), 1, "{never}");
        }
    }

    #[test]
    fn hosts_are_compared_as_sets() {
        let network =
            |hosts: &[&str]| Network::Hosts(hosts.iter().map(|it| it.parse().unwrap()).collect());
        let ceiling = network(&["*.example.com", "one.test:443", "10.0.0.0/8"]);
        for (asked, inside) in [
            ("a.example.com", true),
            ("a.b.example.com:80", true),
            ("*.b.example.com", true),
            ("*.example.com", true),
            ("example.com", false),
            ("notexample.com", false),
            ("*.com", false),
            ("one.test:443", true),
            ("one.test", false),
            ("one.test:80", false),
            ("10.1.0.0/16", true),
            ("10.1.2.3:80", true),
            ("10.0.0.0/7", false),
            ("11.0.0.1", false),
        ] {
            let excess = network(&[asked]).beyond(&ceiling);
            assert_eq!(excess.is_empty(), inside, "{asked}");
        }
        for (asked, inside) in [
            ("a.example.com", true),
            ("localhost", false),
            ("127.0.0.1:80", false),
            ("169.254.169.254", false),
            ("8.8.8.8", true),
            ("8.8.8.0/24", false),
        ] {
            let excess = network(&[asked]).beyond(&Network::Public);
            assert_eq!(excess.is_empty(), inside, "{asked}");
        }
    }
}
