//! A destination that a child was refused.

use std::net::SocketAddr;

/// A destination that a child with outbound network wanted to reach and was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub to: SocketAddr,
    pub transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Stream,
    Datagram,
}
