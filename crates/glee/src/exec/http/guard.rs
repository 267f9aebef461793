//! Which URL may be asked, and which addresses may be dialled for it.

use std::net::{IpAddr, SocketAddr};

use glee_core::host::{HostPattern, is_public};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use thiserror::Error;
use url::{Host, Url};

pub(super) struct Guard<'a> {
    /// What the tool was granted.
    pub(super) network: &'a Network,
    /// What the configuration allows all tools.
    pub(super) allowed: Option<&'a [HostPattern]>,
}

/// The addresses a connection may be dialled to.
///
/// Connections are pooled per reach: one that was dialled to a private address because a tool names
/// it must not be lent to a tool that does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reach {
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

impl Guard<'_> {
    /// Judges the host of a URL by name, and by address where the host is written as one. What comes
    /// back is how far a connection for it may reach.
    pub(super) fn check(&self, url: &Url) -> Result<Reach, Failure> {
        let (host, literal) = host(url)?;
        let port = url.port_or_known_default().unwrap_or_default();
        let listed = |entries: &[HostPattern]| {
            entries.iter().any(|it| {
                it.matches(&host, port) || literal.is_some_and(|ip| it.names_address(ip, port))
            })
        };
        let reach = match self.network {
            Network::None => return Err(no_network(&host)),
            Network::Hosts(entries) if !listed(entries) => return Err(not_listed(&host, port)),
            Network::Hosts(entries) => Reach::named_by(entries, port),
            Network::Public => Reach::Public,
        };
        if self.allowed.is_some_and(|entries| !listed(entries)) {
            return Err(not_allowed(&host, port));
        }
        // The resolver is never asked about an address.
        match literal {
            Some(address) if !reach.permits(address) => {
                Err(NotPublic { host, address }.failure(port))
            }
            _ => Ok(reach),
        }
    }
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

    pub(super) fn permits(&self, address: IpAddr) -> bool {
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
fn host(url: &Url) -> Result<(String, Option<IpAddr>), Failure> {
    match url.host() {
        Some(Host::Domain(name)) => Ok((name.to_owned(), None)),
        Some(Host::Ipv4(ip)) => Ok((ip.to_string(), Some(ip.into()))),
        Some(Host::Ipv6(ip)) => Ok((ip.to_string(), Some(ip.into()))),
        None => Err(super::invalid("the URL has no host")),
    }
}

fn no_network(host: &str) -> Failure {
    Failure::new(
        FailureKind::HostNotAllowed,
        format!("the tool has `network: false` and may not reach `{host}`"),
    )
    .hint(format!(
        "list `{host}` under `permissions.network.hosts` to allow it"
    ))
    .with("host", host)
}

fn not_listed(host: &str, port: u16) -> Failure {
    Failure::new(
        FailureKind::HostNotAllowed,
        format!("`{host}` on port {port} is not among the hosts of this tool"),
    )
    .hint(format!(
        "add `{host}` to `permissions.network.hosts` to allow it"
    ))
    .with("host", host)
}

fn not_allowed(host: &str, port: u16) -> Failure {
    Failure::new(
        FailureKind::HostNotAllowed,
        format!("`{host}` on port {port} is not among the hosts this project allows"),
    )
    .hint(format!(
        "add `{host}` to `http.allowed_hosts` in `.glee/config.yml` to allow it"
    ))
    .with("host", host)
}
