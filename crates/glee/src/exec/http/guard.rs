//! Which URL may be asked, and which addresses may be dialled for it.

use std::net::{IpAddr, SocketAddr};

use glee_core::host::{HostPattern, is_public};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use thiserror::Error;
use url::{Host, Url};

pub(in crate::exec) struct Guard<'a> {
    /// What the tool was granted.
    pub(in crate::exec) network: &'a Network,
    /// What the configuration allows all tools.
    pub(in crate::exec) allowed: Option<&'a [HostPattern]>,
}

/// The addresses a connection may be dialled to.
///
/// Connections are pooled per reach: one that was dialled to a private address because a tool names
/// it must not be lent to a tool that does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::exec) enum Reach {
    /// Public addresses only.
    Public,
    /// Also the addresses these entries name. The port is part of the reach, since an entry may
    /// name an address on one port only and names are resolved without a port.
    Named {
        entries: Vec<HostPattern>,
        port: u16,
    },
}

/// No address of a host may be dialled.
#[derive(Debug, Error)]
#[error("`{host}` is at {address}, which is not a public address")]
pub(super) struct NotPublic {
    pub(super) host: String,
    pub(super) address: IpAddr,
}

/// Why a host may not be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Refused {
    NoHost,
    /// The tool may reach none.
    NoNetwork {
        host: String,
    },
    /// It is not among the hosts of the tool.
    NotListed {
        host: String,
        port: u16,
    },
    /// It is not among those the project allows.
    NotAllowed {
        host: String,
        port: u16,
    },
    /// All of its addresses are out of reach.
    NotPublic {
        host: String,
        address: IpAddr,
        port: u16,
    },
}

impl Guard<'_> {
    /// Judges the host of a URL by name, and by address where the host is written as one. What comes
    /// back is how far a connection for it may reach.
    pub(in crate::exec) fn check(&self, url: &Url) -> Result<Reach, Failure> {
        self.judge(url).map_err(|it| it.failure())
    }

    pub(in crate::exec) fn judge(&self, url: &Url) -> Result<Reach, Refused> {
        let (host, literal) = host(url).ok_or(Refused::NoHost)?;
        let port = url.port_or_known_default().unwrap_or_default();
        let reach = match self.network {
            Network::None => return Err(Refused::NoNetwork { host }),
            Network::Hosts(entries) if !is_among(entries, &host, port) => {
                return Err(Refused::NotListed { host, port });
            }
            Network::Hosts(entries) => Reach::named_by(entries, port),
            Network::Public => Reach::Public,
        };
        if self
            .allowed
            .is_some_and(|entries| !is_among(entries, &host, port))
        {
            return Err(Refused::NotAllowed { host, port });
        }
        // The resolver is never asked about an address.
        match literal {
            Some(address) if !reach.permits(address) => Err(Refused::NotPublic {
                host,
                address,
                port,
            }),
            _ => Ok(reach),
        }
    }
}

/// Whether a host, by its name or as the address that it is, is among these.
pub(in crate::exec) fn is_among(entries: &[HostPattern], host: &str, port: u16) -> bool {
    let literal: Option<IpAddr> = host.parse().ok();
    entries
        .iter()
        .any(|it| it.matches(host, port) || literal.is_some_and(|ip| it.names_address(ip, port)))
}

impl Reach {
    fn named_by(entries: &[HostPattern], port: u16) -> Reach {
        let mut entries: Vec<HostPattern> = entries
            .iter()
            .filter(|it| it.names_addresses())
            .cloned()
            .collect();
        if entries.is_empty() {
            return Reach::Public;
        }
        entries.sort();
        entries.dedup();
        Reach::Named { entries, port }
    }

    pub(in crate::exec) fn permits(&self, address: IpAddr) -> bool {
        is_public(address)
            || match self {
                Reach::Public => false,
                Reach::Named { entries, port } => {
                    entries.iter().any(|it| it.names_address(address, *port))
                }
            }
    }
}

impl NotPublic {
    pub(super) fn failure(&self, port: u16) -> Failure {
        let entry = SocketAddr::new(self.address, port);
        Failure::new(FailureKind::HostNotAllowed, self.to_string())
            .hint(format!(
                "if this tool may reach it, add `{entry}` to `permissions.network.hosts`"
            ))
            .with("host", self.host.as_str())
            .with("address", self.address.to_string())
    }
}

/// The host as patterns know it, without brackets, and its address if it is written as one. The URL
/// parser has already turned `0x7f.1` and its kin into plain addresses.
fn host(url: &Url) -> Option<(String, Option<IpAddr>)> {
    match url.host()? {
        Host::Domain(name) => Some((name.to_owned(), None)),
        Host::Ipv4(ip) => Some((ip.to_string(), Some(ip.into()))),
        Host::Ipv6(ip) => Some((ip.to_string(), Some(ip.into()))),
    }
}

impl Refused {
    fn failure(&self) -> Failure {
        let refused = |host: &str, message: String, hint: String| {
            Failure::new(FailureKind::HostNotAllowed, message)
                .hint(hint)
                .with("host", host)
        };
        match self {
            Refused::NoHost => super::invalid("the URL has no host"),
            Refused::NoNetwork { host } => refused(
                host,
                format!("the tool has `network: false` and may not reach `{host}`"),
                format!("list `{host}` under `permissions.network.hosts` to allow it"),
            ),
            Refused::NotListed { host, port } => refused(
                host,
                format!("`{host}` on port {port} is not among the hosts of this tool"),
                format!("add `{host}` to `permissions.network.hosts` to allow it"),
            ),
            Refused::NotAllowed { host, port } => refused(
                host,
                format!("`{host}` on port {port} is not among the hosts this project allows"),
                format!("add `{host}` to `http.allowed_hosts` in `.glee/config.yml` to allow it"),
            ),
            Refused::NotPublic {
                host,
                address,
                port,
            } => NotPublic {
                host: host.clone(),
                address: *address,
            }
            .failure(*port),
        }
    }

    pub(in crate::exec) fn host(&self) -> Option<&str> {
        match self {
            Refused::NoHost => None,
            Refused::NoNetwork { host }
            | Refused::NotListed { host, .. }
            | Refused::NotAllowed { host, .. }
            | Refused::NotPublic { host, .. } => Some(host),
        }
    }

    pub(in crate::exec) fn host_mut(&mut self) -> Option<&mut String> {
        match self {
            Refused::NoHost => None,
            Refused::NoNetwork { host }
            | Refused::NotListed { host, .. }
            | Refused::NotAllowed { host, .. }
            | Refused::NotPublic { host, .. } => Some(host),
        }
    }

    /// In words for whoever was refused.
    pub(in crate::exec) fn words(&self) -> String {
        let Failure { message, hint, .. } = self.failure();
        format!("{message}; {}", hint.unwrap_or_default())
    }
}
