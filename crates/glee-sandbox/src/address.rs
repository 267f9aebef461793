//! Which addresses are on the open internet, by the registries of special purposes.
//!
//! `glee_core::host` has the same table, because neither crate may know the other; a test of `glee` compares them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether outbound network reaches an address that was not granted. One that carries an IPv4 address inside is none.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(it: Ipv4Addr) -> bool {
    let [a, b, c, _] = it.octets();
    let special = matches!(
        (a, b, c),
        (0 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (192, 0, 0 | 2)
            | (192, 31, 196)
            | (192, 52, 193)
            | (192, 88, 99)
            | (192, 175, 48)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    // The last is a metadata service that does not live on a link-local address.
    !(special || it.is_private() || it.is_link_local() || it == Ipv4Addr::new(168, 63, 129, 16))
}

fn is_public_v6(it: Ipv6Addr) -> bool {
    // Global unicast only, without protocol assignments and Teredo, documentation, 6to4 and AS112.
    let [a, b, c, ..] = it.segments();
    let special = matches!(
        (a, b, c),
        (0x2001, ..0x0200 | 0x0db8, _)
            | (0x2002, _, _)
            | (0x2620, 0x004f, 0x8000)
            | (0x3fff, ..0x1000, _)
    );
    a & 0xe000 == 0x2000 && !special
}
