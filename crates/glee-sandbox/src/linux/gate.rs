//! Which addresses a payload with outbound network may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::{IpRange, is_public};

/// What a destination is judged by.
pub(super) struct Gate {
    granted: Vec<IpRange>,
    /// Without these no name can be resolved.
    nameservers: Vec<IpAddr>,
}

impl Gate {
    pub(super) fn new(granted: Vec<IpRange>, resolv_conf: &str) -> Gate {
        let nameservers = resolv_conf
            .lines()
            .filter_map(|line| line.strip_prefix("nameserver"));
        let nameservers = nameservers
            .filter_map(|it| it.trim().parse().ok())
            .collect();
        Gate {
            granted,
            nameservers,
        }
    }

    pub(super) fn allows(&self, to: SocketAddr) -> bool {
        let address = plain(to.ip());
        let granted = self
            .granted
            .iter()
            .any(|it| contains(it, address, to.port()));
        let resolves = to.port() == 53 && self.nameservers.iter().any(|it| plain(*it) == address);
        granted || resolves || (is_public(address) && !is_own(address))
    }
}

/// The address that is meant, when an IPv6 one stands for an IPv4 one.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else {
        return address;
    };
    let octets = six.octets();
    let v4 = |at: usize| {
        IpAddr::V4(Ipv4Addr::new(
            octets[at],
            octets[at + 1],
            octets[at + 2],
            octets[at + 3],
        ))
    };
    match six.segments() {
        // Mapped and compatible, translated (NAT64), 6to4.
        [0, 0, 0, 0, 0, 0xffff, ..] => v4(12),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) != (0, 0) && (high, low) != (0, 1) => v4(12),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(12),
        [0x2002, ..] => v4(2),
        _ => address,
    }
}

fn contains(range: &IpRange, address: IpAddr, port: u16) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let ignored = width.saturating_sub(u32::from(range.prefix));
        a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
    };
    let inside = match (plain(range.address), address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    };
    inside && range.port.is_none_or(|it| it == port)
}

/// Whether an address is this machine's own: then the kernel would send from that very address.
fn is_own(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Connecting a datagram socket sends nothing.
    let local = UdpSocket::bind(any).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    local.is_ok_and(|it| it.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        for it in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.9.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "::ffff:169.254.169.254",
            "fec0::1",
        ] {
            let gate = Gate::new(vec![], "");
            assert!(
                !gate.allows(SocketAddr::new(it.parse().unwrap(), 80)),
                "{it}"
            );
        }
        for it in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "192.88.98.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(plain(it.parse().unwrap())), "{it}");
        }
    }

    #[test]
    fn grants_name_a_range_and_perhaps_a_port() {
        let range = |address: &str, prefix, port| IpRange {
            address: address.parse().unwrap(),
            prefix,
            port,
        };
        let gate = Gate::new(
            vec![
                range("10.1.0.0", 16, None),
                range("127.0.0.1", 32, Some(8080)),
                range("fd00::", 8, None),
            ],
            "# x\nnameserver 127.0.0.53\nnameserver fe80::1\noptions edns0\n",
        );
        let allows = |to: &str| gate.allows(to.parse().unwrap());
        assert!(allows("10.1.2.3:80") && allows("[::ffff:10.1.2.3]:80") && !allows("10.2.2.3:80"));
        assert!(allows("127.0.0.1:8080") && !allows("127.0.0.1:8081") && !allows("127.0.0.2:8080"));
        assert!(allows("[fd12::1]:1") && !allows("[fe80::1]:1"));
        assert!(allows("127.0.0.53:53") && !allows("127.0.0.53:80"));
    }
}
