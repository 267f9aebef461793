//! What a tool asks for, what it may be given at most, and what one call is given.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::host::HostPattern;

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
    /// What these permissions ask beyond the ceiling, each in the words of a manifest.
    pub fn beyond(&self, ceiling: &Ceiling, root: &Path) -> Vec<String> {
        let mut excess = Vec::new();
        match (&self.network, &ceiling.network) {
            (Network::None, _) | (_, Network::Public) => {}
            (Network::Public, _) => excess.push("network: true".to_owned()),
            (Network::Hosts(asked), Network::Hosts(allowed)) => {
                let extra = asked.iter().filter(|it| !allowed.contains(it));
                excess.extend(extra.map(|it| format!("network host {it}")));
            }
            (Network::Hosts(asked), Network::None) => {
                excess.extend(asked.iter().map(|it| format!("network host {it}")));
            }
        }
        let mut paths = |verb: &str, asked: &[String], allowed: &[String]| {
            for path in asked {
                let asked = absolute(root, path);
                if !allowed
                    .iter()
                    .any(|it| asked.starts_with(absolute(root, it)))
                {
                    excess.push(format!("{verb} {path}"));
                }
            }
        };
        paths("read", &self.read, &ceiling.read);
        paths("write", &self.write, &ceiling.write);
        let extra = self
            .secrets
            .keys()
            .filter(|it| !ceiling.secrets.contains(it));
        excess.extend(extra.map(|it| format!("secret {it}")));
        excess
    }

    pub fn grant(&self, root: &Path) -> Grant {
        Grant {
            network: self.network.clone(),
            read: self.read.iter().map(|it| absolute(root, it)).collect(),
            write: self.write.iter().map(|it| absolute(root, it)).collect(),
        }
    }
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
            asked.beyond(&ceiling, root),
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
        assert_eq!(public.beyond(&ceiling, root), ["network: true"]);
        assert!(
            Permissions::default()
                .beyond(&Ceiling::default(), root)
                .is_empty()
        );
    }
}
