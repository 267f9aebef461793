//! Which hosts may be reached: patterns by name, and the class of an address.
//!
//! Names are judged before anything is resolved; addresses are judged where they are dialled. A name
//! on the list never opens a private address: only an entry that names the address does.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// One entry of a `hosts` list: `api.example.com`, `*.example.com`, `127.0.0.1:8080`,
/// `[::1]`, `10.0.0.0/8`. Without a port, every port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Name(String),
    /// One or more labels to the left of this name.
    Below(String),
    Range {
        base: IpAddr,
        bits: u8,
    },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum HostError {
    #[error("`*` would allow every host; write `network: true` for that")]
    Everything,
    #[error(
        "`{0}` is not a host: write `api.example.com`, `*.example.com`, `10.0.0.0/8` or `127.0.0.1:8080`"
    )]
    NotAHost(String),
    #[error("`{0}` looks like a URL; write only its host")]
    IsAUrl(String),
}

impl HostPattern {
    /// Whether the pattern covers this host of a parsed URL (lower case, IDNA, no brackets).
    pub fn matches(&self, host: &str, port: u16) -> bool {
        if self.port.is_some_and(|it| it != port) {
            return false;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        match &self.host {
            Host::Name(name) => name == host,
            Host::Below(parent) => host
                .strip_suffix(parent.as_str())
                .and_then(|left| left.strip_suffix('.'))
                .is_some_and(|left| !left.is_empty()),
            Host::Range { .. } => host.parse().is_ok_and(|address| self.covers(address)),
        }
    }

    /// Whether the pattern names this address itself, so that it may be dialled even if private.
    /// `localhost` names the loopback addresses; a metadata address must be written out in full.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        if self.port.is_some_and(|it| it != port) {
            return false;
        }
        match &self.host {
            Host::Name(name) => name == "localhost" && address.is_loopback(),
            Host::Below(_) => false,
            Host::Range { bits, .. } => {
                let whole = if address.is_ipv4() { 32 } else { 128 };
                self.covers(address) && (*bits == whole || !is_metadata(address))
            }
        }
    }

    /// Whether the pattern covers whatever the other one covers.
    pub fn holds(&self, other: &HostPattern) -> bool {
        if self.port.is_some() && self.port != other.port {
            return false;
        }
        match (&self.host, &other.host) {
            (Host::Name(name), Host::Name(other)) => name == other,
            (Host::Below(parent), Host::Below(other)) if parent == other => true,
            (Host::Below(parent), Host::Name(other) | Host::Below(other)) => other
                .strip_suffix(parent.as_str())
                .is_some_and(|left| left.ends_with('.')),
            (Host::Range { bits, .. }, Host::Range { base, bits: other }) => {
                bits <= other && self.covers(*base)
            }
            (Host::Name(_), _) | (Host::Below(_), _) | (Host::Range { .. }, _) => false,
        }
    }

    /// Whether it opens no address but public ones.
    pub fn is_public(&self) -> bool {
        match &self.host {
            Host::Name(name) => name != "localhost",
            Host::Below(_) => true,
            Host::Range { base, bits } => {
                let whole = if base.is_ipv4() { 32 } else { 128 };
                *bits == whole && is_public(*base)
            }
        }
    }

    /// Whether the pattern can name an address at all.
    pub fn names_addresses(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == "localhost",
            Host::Below(_) => false,
            Host::Range { .. } => true,
        }
    }

    fn covers(&self, address: IpAddr) -> bool {
        match (&self.host, address) {
            (
                Host::Range {
                    base: IpAddr::V4(base),
                    bits,
                },
                IpAddr::V4(it),
            ) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                u32::from(*base) & mask == u32::from(it) & mask
            }
            (
                Host::Range {
                    base: IpAddr::V6(base),
                    bits,
                },
                IpAddr::V6(it),
            ) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                u128::from(*base) & mask == u128::from(it) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<HostPattern, HostError> {
        let bad = || HostError::NotAHost(text.to_owned());
        if text == "*" {
            return Err(HostError::Everything);
        }
        if text.contains("://") {
            return Err(HostError::IsAUrl(text.to_owned()));
        }
        if let Some((base, bits)) = text.split_once('/') {
            let base: IpAddr = base.parse().map_err(|_| bad())?;
            let bits: u8 = bits.parse().map_err(|_| bad())?;
            if bits > if base.is_ipv4() { 32 } else { 128 } {
                return Err(bad());
            }
            return Ok(HostPattern {
                host: Host::Range { base, bits },
                port: None,
            });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(HostPattern {
                host: exactly(address),
                port: None,
            });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| bad())?)),
            None => (text, None),
        };
        if let Some(inner) = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            let address: Ipv6Addr = inner.parse().map_err(|_| bad())?;
            return Ok(HostPattern {
                host: exactly(address.into()),
                port,
            });
        }
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Ok(HostPattern {
                host: exactly(address.into()),
                port,
            });
        }
        let (name, below) = match host.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (host, false),
        };
        // The URL parser's own notion of a host, so that pattern and request are folded alike.
        let folded = match url::Host::parse(name.strip_suffix('.').unwrap_or(name)) {
            Ok(url::Host::Domain(folded)) if !folded.is_empty() && !folded.contains('*') => folded,
            _ => return Err(bad()),
        };
        let host = if below {
            Host::Below(folded)
        } else {
            Host::Name(folded)
        };
        Ok(HostPattern { host, port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}")?,
            Host::Below(parent) => write!(f, "*.{parent}")?,
            Host::Range {
                base: IpAddr::V4(base),
                bits: 32,
            } => write!(f, "{base}")?,
            Host::Range {
                base: IpAddr::V6(base),
                bits: 128,
            } if self.port.is_some() => {
                write!(f, "[{base}]")?;
            }
            Host::Range {
                base: IpAddr::V6(base),
                bits: 128,
            } => write!(f, "{base}")?,
            Host::Range { base, bits } => write!(f, "{base}/{bits}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn exactly(address: IpAddr) -> Host {
    Host::Range {
        base: address,
        bits: if address.is_ipv4() { 32 } else { 128 },
    }
}

/// Whether an address is out on the public internet. Everything with another meaning — private,
/// loopback, link-local, shared, multicast, documentation, transition ranges that may carry an
/// IPv4 address inside — is not.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

/// Addresses at which clouds hand out credentials.
pub fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => matches!(
            it.octets(),
            [169, 254, ..] | [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192]
        ),
        IpAddr::V6(it) => it == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    }
}

fn is_public_v4(it: Ipv4Addr) -> bool {
    !matches!(
        it.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 31, 196, _]
            | [192, 52, 193, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [192, 175, 48, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [168, 63, 129, 16]
            | [224..=255, ..]
    )
}

fn is_public_v6(it: Ipv6Addr) -> bool {
    // Only 2000::/3 is global unicast; what is special inside it is taken out again. Mapped,
    // compatible, NAT64, ULA, link-local, site-local and multicast all lie outside.
    let s = it.segments();
    let global = s[0] & 0xe000 == 0x2000;
    let special = matches!(s, [0x2001, 0..=0x01ff, ..])    // IETF protocol assignments, Teredo, ORCHID
        || matches!(s, [0x2001, 0xdb8, ..])                 // documentation
        || matches!(s, [0x2002, ..])                        // 6to4 carries an IPv4 address
        || matches!(s, [0x2620, 0x4f, 0x8000, ..])          // AS112
        || matches!(s, [0x3fff, 0..=0x0fff, ..]); // documentation
    global && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn names_match_by_whole_labels() {
        let exact = pattern("Example.com");
        assert!(exact.matches("example.com", 443) && exact.matches("example.com.", 80));
        for other in [
            "evilexample.com",
            "example.com.evil.io",
            "sub.example.com",
            "",
        ] {
            assert!(!exact.matches(other, 443), "{other}");
        }
        let below = pattern("*.example.com");
        assert!(below.matches("a.b.example.com", 443));
        assert!(!below.matches("example.com", 443) && !below.matches("xexample.com", 443));
        assert!(!pattern("example.com:8080").matches("example.com", 443));
        assert!(pattern("bücher.example").matches("xn--bcher-kva.example", 443));
    }

    #[test]
    fn only_an_address_names_an_address() {
        let private: IpAddr = "10.1.2.3".parse().unwrap();
        assert!(pattern("10.0.0.0/8").names_address(private, 80));
        assert!(!pattern("intranet.example").names_address(private, 80));
        assert!(pattern("localhost").names_address("127.0.0.1".parse().unwrap(), 80));
        assert!(!pattern("localhost").names_address(private, 80));
        let metadata: IpAddr = "169.254.169.254".parse().unwrap();
        assert!(!pattern("169.254.0.0/16").names_address(metadata, 80));
        assert!(pattern("169.254.169.254").names_address(metadata, 80));
        assert!(!pattern("127.0.0.1:80").names_address("127.0.0.1".parse().unwrap(), 81));
        assert!(pattern("[::1]:80").names_address("::1".parse().unwrap(), 80));
    }

    #[test]
    fn not_hosts() {
        for bad in [
            "*",
            "",
            "a b",
            "https://x.test",
            "10.0.0.0/33",
            "x:99999",
            "*.",
            "a.*.b",
            "[::1",
            "x\0y",
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn display_round_trips() {
        for text in [
            "x.test",
            "*.x.test:81",
            "10.0.0.0/8",
            "127.0.0.1:80",
            "[::1]:80",
            "::1",
            "fd00::/8",
        ] {
            assert_eq!(pattern(text).to_string(), text);
            assert_eq!(pattern(&pattern(text).to_string()), pattern(text));
        }
    }

    #[test]
    fn classes() {
        for public in ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.9.9",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "5f00::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }
}
