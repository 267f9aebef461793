//! Requests of glee and connections of tools are judged by two tables, because the crates do not know each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[track_caller]
fn agree(address: IpAddr) {
    let (requests, connections) = (
        glee_core::host::is_public(address),
        glee_sandbox::is_public(address),
    );
    assert_eq!(requests, connections, "{address}");
}

#[test]
fn both_tables_know_the_same_public_addresses() {
    // One of every 256, which is the narrowest range but for one address, and that is among them.
    for network in 0..1_u32 << 24 {
        agree(Ipv4Addr::from(network << 8 | 16).into());
    }
    for last in 0..=255 {
        agree(Ipv4Addr::new(168, 63, 129, last).into());
    }
    let borders = [0, 0x4f, 0x1ff, 0xdb8, 0xfff, 0x1000, 0x7fff, 0x8000, 0xffff];
    let near = borders.map(|it: u16| [it.wrapping_sub(1), it, it.wrapping_add(1)]);
    for first in 0..=u16::MAX {
        for second in near.as_flattened() {
            for third in [0, 0x7fff, 0x8000, 0x8001] {
                agree(Ipv6Addr::new(first, *second, third, 0, 0, 0, 0, 1).into());
            }
        }
    }
}
