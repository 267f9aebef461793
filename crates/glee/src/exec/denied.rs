//! What a program was refused, by whom, and the narrowest grant that would allow it.
//!
//! The gatekeeper and the proxy tell what they refuse. Of the rest there are only the program's own words; see
//! [`guessed`](super::guessed).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use glee_core::admit::Admitted;
use glee_core::host::is_metadata;
use glee_core::model::Origin;
use glee_core::outcome::Failure;
use glee_core::permission::Network;
use glee_core::redact::is_short;
use glee_core::secret::SecretValues;
use glee_sandbox::{Child, Refusal, Tier, Transport};
use serde_json::{Value, json};

use super::cage::Cage;
use super::http::Refused;

/// Most denials told of one call.
pub(super) const MOST: usize = 5;

/// One thing that was refused, or seems to have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The gatekeeper refused a destination.
    Destination {
        refusal: Refusal,
        /// Whether the project would allow it.
        is_allowed: bool,
    },
    /// The proxy refused a host.
    Host { refused: Refused, is_allowed: bool },
    /// A file that the words name.
    Read {
        path: String,
        by: &'static str,
        opens: Opens,
    },
    Write {
        path: String,
        by: &'static str,
        opens: Opens,
    },
    /// The words are about a network, and there is none.
    NoNetwork,
    /// The words are about a network, and only the proxy leads there.
    Bypass,
}

/// What would have to be granted for a path. A grant opens what is there, by its real name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    Itself,
    /// It is a link, or behind one.
    WhereItLeads(String),
    /// It is not there, and would be made in this directory.
    Directory(String),
    /// It is not there, and its directory is too much to grant for it.
    OnceThere,
    /// It is protected whatever is granted.
    Never,
}

/// What is known to have been refused to a child, and what held it.
pub(super) struct Known {
    pub(super) denials: Vec<Denial>,
    pub(super) tier: Tier,
}

/// A denial, worded for whoever was refused.
#[derive(Clone, Debug)]
pub struct Denied {
    pub details: Value,
    pub sentence: String,
}

/// Where what is missing would be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    InManifest,
    ForBuiltIns,
    /// For the one that installs packages.
    ForPackages,
    OnCommandLine,
}

impl Granted {
    pub(super) fn of(call: &Admitted) -> Granted {
        match call.spec().origin {
            Origin::BuiltIn if call.spec().name == "install_package" => Granted::ForPackages,
            Origin::BuiltIn => Granted::ForBuiltIns,
            _ => Granted::InManifest,
        }
    }

    fn host(self, entry: &str) -> String {
        match self {
            Granted::InManifest => format!("network: {{hosts: [\"{entry}\"]}}"),
            Granted::ForBuiltIns => format!("builtins.network: {{hosts: [\"{entry}\"]}}"),
            Granted::ForPackages => format!("builtins.registries: [\"{entry}\"]"),
            Granted::OnCommandLine => format!("--host {entry}"),
        }
    }

    fn path(self, permission: &str, path: &str) -> String {
        match self {
            Granted::OnCommandLine => {
                let (_, flag) = permission.split_once('.').unwrap_or_default();
                match path.chars().all(is_plain) {
                    true => format!("--{flag} {path}"),
                    false => format!("--{flag} '{}'", path.replace('\'', r"'\''")),
                }
            }
            _ if path.chars().all(is_plain) => format!("{permission}: [{path}]"),
            // As JSON writes it, which is how YAML reads it.
            _ => format!("{permission}: [{}]", Value::from(path)),
        }
    }

    /// The narrowest grant that opens a path.
    fn opening(self, permission: &str, path: &str, opens: &Opens) -> Option<String> {
        let path = match opens {
            Opens::Itself => path,
            Opens::WhereItLeads(real) => real,
            Opens::Directory(it) => it,
            Opens::OnceThere | Opens::Never => return None,
        };
        Some(self.path(permission, path))
    }

    fn everywhere(self) -> &'static str {
        match self {
            Granted::InManifest => "network: true",
            Granted::ForBuiltIns | Granted::ForPackages => "builtins.network: true",
            Granted::OnCommandLine => "--net",
        }
    }
}

const PROXY: &str = "the proxy that HTTP_PROXY and HTTPS_PROXY name";

impl Denial {
    fn what(&self) -> String {
        match self {
            Denial::Destination { refusal, .. } => match refusal.transport {
                Transport::Stream => refusal.to.to_string(),
                Transport::Datagram => format!("{} (datagrams)", refusal.to),
            },
            Denial::Host { refused, .. } => match refused {
                Refused::NoHost => String::new(),
                Refused::NoNetwork { host } => host.clone(),
                Refused::NotListed { host, port }
                | Refused::NotAllowed { host, port }
                | Refused::NotPublic { host, port, .. } => entry(host, *port),
            },
            Denial::Read { path, .. } | Denial::Write { path, .. } => path.clone(),
            Denial::NoNetwork => "network".to_owned(),
            Denial::Bypass => "a connection past the proxy".to_owned(),
        }
    }

    fn by(&self) -> &'static str {
        match self {
            Denial::Destination { .. } => "connect supervisor",
            Denial::Host { .. } => "proxy",
            Denial::Read { by, .. } | Denial::Write { by, .. } => by,
            Denial::NoNetwork => "seccomp",
            Denial::Bypass => "empty network",
        }
    }

    fn permission(&self) -> &'static str {
        match self {
            Denial::Read { .. } => "fs.read",
            Denial::Write { .. } => "fs.write",
            Denial::Host {
                refused: Refused::NotAllowed { .. },
                ..
            } => "http.allowed_hosts",
            _ => "network",
        }
    }

    /// The narrowest grant that would allow it, if there is one.
    fn grant(&self, granted: Granted) -> Option<String> {
        match self {
            Denial::Destination { refusal, .. } => match refusal.transport {
                Transport::Stream => Some(granted.host(&refusal.to.to_string())),
                Transport::Datagram => None,
            },
            Denial::Host { refused, .. } => match refused {
                Refused::NoHost => None,
                Refused::NoNetwork { host } => Some(granted.host(host)),
                Refused::NotListed { host, port } => Some(granted.host(&entry(host, *port))),
                Refused::NotAllowed { host, port } => {
                    Some(format!("http.allowed_hosts: [\"{}\"]", entry(host, *port)))
                }
                Refused::NotPublic { address, port, .. } => {
                    Some(granted.host(&SocketAddr::new(*address, *port).to_string()))
                }
            },
            Denial::Read { path, opens, .. } => granted.opening("fs.read", path, opens),
            Denial::Write { path, opens, .. } => granted.opening("fs.write", path, opens),
            Denial::NoNetwork => Some(granted.host("the host it needs").replace('"', "")),
            Denial::Bypass => None,
        }
    }

    /// What else to know about it.
    fn note(&self, granted: Granted) -> Option<String> {
        const ALLOWED: &str = "`http.allowed_hosts` in .glee/config.yml has to list it as well";
        const METADATA: &str = "a cloud hands out the machine's credentials there";
        let everywhere = granted.everywhere();
        let (note, is_allowed) = match self {
            Denial::Destination {
                refusal,
                is_allowed,
            } => match refusal.transport {
                Transport::Stream => (
                    Some(format!(
                        "this replaces `{everywhere}`, so list the public hosts that are needed, too; all of them are reached through {PROXY}"
                    )),
                    *is_allowed,
                ),
                Transport::Datagram => (
                    Some(
                        "no permission opens addresses that are not public to datagrams".to_owned(),
                    ),
                    true,
                ),
            },
            Denial::Host {
                refused,
                is_allowed,
            } => match refused {
                Refused::NotAllowed { .. } => (
                    Some(
                        "the tool lists it, and the project's .glee/config.yml does not".to_owned(),
                    ),
                    true,
                ),
                Refused::NotPublic { host, address, .. } => {
                    let is_named = *host != address.to_string();
                    let note =
                        format!("`{host}` is at {address}, and a name opens no private address");
                    (is_named.then_some(note), *is_allowed)
                }
                _ => (None, *is_allowed),
            },
            Denial::Bypass => (
                Some(format!(
                    "hosts that are granted are reached only through {PROXY}; a direct connection needs `{everywhere}`, which reaches public addresses"
                )),
                true,
            ),
            Denial::Read { path, opens, .. } | Denial::Write { path, opens, .. } => {
                (opens.note(self.permission(), path, granted), true)
            }
            Denial::NoNetwork => (None, true),
        };
        let parts = [
            note,
            (!is_allowed).then(|| ALLOWED.to_owned()),
            self.address()
                .is_some_and(is_metadata)
                .then(|| METADATA.to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn address(&self) -> Option<IpAddr> {
        match self {
            Denial::Destination { refusal, .. } => Some(refusal.to.ip()),
            Denial::Host { refused, .. } => match refused {
                Refused::NotPublic { address, .. } => Some(*address),
                _ => refused.host()?.parse().ok(),
            },
            _ => None,
        }
    }

    /// Whether whoever refused it has told it.
    fn is_known(&self) -> bool {
        matches!(self, Denial::Destination { .. } | Denial::Host { .. })
    }

    fn is_about_network(&self) -> bool {
        !matches!(self, Denial::Read { .. } | Denial::Write { .. })
    }

    pub(super) fn denied(&self, granted: Granted) -> Denied {
        Denied {
            details: self.shown(granted),
            sentence: self.sentence(granted),
        }
    }

    /// For `details.denied`.
    fn shown(&self, granted: Granted) -> Value {
        let mut shown = json!({
            "what": self.what(), "by": self.by(), "permission": self.permission(), "grant": self.grant(granted),
        });
        if let Some(note) = self.note(granted) {
            shown["note"] = note.into();
        }
        shown
    }

    /// For people, in one line.
    fn sentence(&self, granted: Granted) -> String {
        let refused = match self.is_known() {
            true => format!("the {} refused {}", self.by(), self.what()),
            false => format!("it seems that the sandbox refused {}", self.what()),
        };
        let grant = self.grant(granted);
        let grant = grant.map(|it| format!("if the tool needs it, grant `{it}`"));
        let parts = [Some(refused), grant, self.note(granted)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Opens {
    /// What else to know about its grant.
    fn note(&self, permission: &str, path: &str, granted: Granted) -> Option<String> {
        const NOT_THERE: &str = "what is not there cannot be granted";
        let alone = granted.path(permission, path);
        match self {
            Opens::Itself => None,
            Opens::WhereItLeads(real) => Some(format!(
                "it leads to {real}, and a grant opens only that name, so the tool has to use it"
            )),
            Opens::Directory(_) => Some(format!(
                "{NOT_THERE}; once it is there, `{alone}` is enough"
            )),
            Opens::OnceThere => Some(format!("{NOT_THERE}; make it first, then grant `{alone}`")),
            Opens::Never => Some("it is protected, whatever is granted".to_owned()),
        }
    }
}

/// Whether a letter of a path means nothing else, neither to YAML nor to a shell.
fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "/._-+@=".contains(letter)
}

/// A host as an entry of a list names it.
fn entry(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

impl Cage {
    /// What the gatekeeper and the proxy have refused a child since its call began.
    pub(super) fn refused(&self, child: &Child, network: &Network) -> Known {
        let denials = match network {
            Network::None => Vec::new(),
            Network::Public => self.destinations(&child.refused()),
            Network::Hosts(_) => {
                let refused = self.egress.refused(child.launcher_id(), child.since());
                refused.into_iter().map(|it| self.host(it)).collect()
            }
        };
        let tier = child.strength().tier;
        Known { denials, tier }
    }

    fn destinations(&self, refused: &[Refusal]) -> Vec<Denial> {
        let is_stream = |it: &Refusal| it.transport == Transport::Stream;
        // Whoever resolves a name connects datagrams to what was found, and sends none.
        let is_meant = |it: &&Refusal| {
            is_stream(it)
                || !refused
                    .iter()
                    .any(|other| is_stream(other) && other.to == it.to)
        };
        let meant = refused.iter().filter(is_meant);
        meant
            .map(|&refusal| Denial::Destination {
                refusal,
                is_allowed: self
                    .egress
                    .allows(&refusal.to.ip().to_string(), refusal.to.port()),
            })
            .collect()
    }

    fn host(&self, refused: Refused) -> Denial {
        let is_allowed = match &refused {
            Refused::NotListed { host, port } => self.egress.allows(host, *port),
            _ => true,
        };
        Denial::Host {
            refused,
            is_allowed,
        }
    }
}

/// What is told of a call: what is known first, then what its words point to.
pub(super) fn told(
    known: &[Denial],
    guessed: Vec<Denial>,
    secrets: &SecretValues,
    granted: Granted,
) -> Vec<Denied> {
    let mut told: Vec<Denial> = known.to_vec();
    // Words about a network are about what is known already.
    let is_new = |it: &Denial| known.is_empty() || !it.is_about_network();
    told.extend(guessed.into_iter().filter(is_new));
    told.truncate(MOST);
    for denial in &mut told {
        if let Denial::Host { refused, .. } = denial
            && let Some(host) = refused.host_mut()
        {
            conceal(host, secrets);
        }
    }
    told.iter().map(|it| it.denied(granted)).collect()
}

/// Adds what was refused to a failure.
pub(crate) fn add(failure: Failure, denied: &[Denied]) -> Failure {
    match denied.first() {
        None => failure,
        Some(first) => {
            let details: Vec<Value> = denied.iter().map(|it| it.details.clone()).collect();
            failure.with("denied", details).hint(&first.sentence)
        }
    }
}

/// What comes from a URL is in lower case, in which nobody looks for a secret later on.
fn conceal(host: &mut String, secrets: &SecretValues) {
    for (name, secret) in secrets.iter().filter(|it| !is_short(it.1)) {
        let folded = secret.reveal().to_ascii_lowercase();
        if host.contains(&folded) {
            *host = host.replace(&folded, &format!("[REDACTED:{name}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use glee_core::secret::Secret;

    use super::*;

    fn destination(transport: Transport) -> Denial {
        Denial::Destination {
            refusal: Refusal {
                to: "[::1]:80".parse().unwrap(),
                transport,
            },
            is_allowed: false,
        }
    }

    #[test]
    fn what_nothing_would_allow_has_no_grant() {
        let shown = destination(Transport::Datagram).shown(Granted::InManifest);
        assert_eq!(shown["grant"], Value::Null);
        assert!(shown["note"].as_str().unwrap().contains("datagrams"));
    }

    #[test]
    fn what_a_metadata_address_gives_away_is_told() {
        let to = "169.254.169.254:80";
        let known = [
            Denial::Destination {
                refusal: Refusal {
                    to: to.parse().unwrap(),
                    transport: Transport::Stream,
                },
                is_allowed: true,
            },
            Denial::Host {
                refused: Refused::NotListed {
                    host: "169.254.169.254".to_owned(),
                    port: 80,
                },
                is_allowed: true,
            },
        ];
        for it in known {
            let sentence = it.sentence(Granted::InManifest);
            assert!(sentence.contains("credentials"), "{sentence}");
        }
    }

    #[test]
    fn a_path_that_means_something_else_is_quoted() {
        let grant = |path: &str, granted: Granted| granted.path("fs.read", path);
        for (path, in_manifest, by_hand) in [
            ("/p/a-b_c.txt", "[/p/a-b_c.txt]", "--read /p/a-b_c.txt"),
            ("/p/a,/etc", r#"["/p/a,/etc"]"#, "--read '/p/a,/etc'"),
            ("/p/$(x)#'", r#"["/p/$(x)#'"]"#, r"--read '/p/$(x)#'\'''"),
        ] {
            let manifest = grant(path, Granted::InManifest);
            assert_eq!(manifest, format!("fs.read: {in_manifest}"));
            assert_eq!(grant(path, Granted::OnCommandLine), by_hand);
        }
    }

    #[test]
    fn a_grant_is_told_where_it_is_given() {
        let denial = destination(Transport::Stream);
        for (granted, grant, instead_of) in [
            (
                Granted::InManifest,
                "network: {hosts: [\"[::1]:80\"]}",
                "`network: true`",
            ),
            (
                Granted::ForBuiltIns,
                "builtins.network: {hosts: [\"[::1]:80\"]}",
                "`builtins.network: true`",
            ),
            (Granted::OnCommandLine, "--host [::1]:80", "`--net`"),
        ] {
            let shown = denial.shown(granted);
            assert_eq!(shown["grant"], grant);
            let note = shown["note"].as_str().unwrap();
            assert!(
                note.contains(instead_of) && note.contains("http.allowed_hosts"),
                "{note}"
            );
        }
    }

    #[test]
    fn a_secret_in_a_name_is_not_told_in_lower_case_either() {
        let secrets = SecretValues::from([("KEY".to_owned(), Secret::new("S3cretValue"))]);
        let known = [Denial::Host {
            refused: Refused::NotListed {
                host: "x-s3cretvalue.test".to_owned(),
                port: 80,
            },
            is_allowed: true,
        }];
        let told = told(&known, Vec::new(), &secrets, Granted::InManifest);
        let shown = format!("{:?}", told[0]);
        assert!(
            !shown.contains("s3cretvalue") && shown.contains("x-[REDACTED:KEY].test:80"),
            "{shown}"
        );
    }

    #[test]
    fn what_is_known_comes_first_and_no_more_than_five_are_told() {
        let known = vec![destination(Transport::Stream); 4];
        let path = |path: &str| Denial::Read {
            path: path.to_owned(),
            by: "landlock",
            opens: Opens::Itself,
        };
        let guessed = vec![Denial::Bypass, path("/a"), path("/b")];
        let told = told(&known, guessed, &SecretValues::new(), Granted::InManifest);
        assert_eq!(told.len(), MOST);
        assert_eq!(told[4].details["what"], "/a");
    }
}
