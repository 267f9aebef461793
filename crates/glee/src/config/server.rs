//! `server:` of the config: how many connections `glee serve` has, and how long they may take.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// What `glee serve` bears from those who connect, whoever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Connections at once.
    pub connections: usize,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long its body may take to come, and one second more for each 64 KiB of it that came.
    pub body: Duration,
    /// How long a connection may be silent between two requests, and how long a client may not read what it
    /// is answered.
    pub idle: Duration,
    /// Largest body of a request.
    pub request_bytes: usize,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            connections: 1024,
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            request_bytes: 4 << 20,
        }
    }
}

pub(super) fn server(wire: &WireServer) -> Server {
    let otherwise = Server::default();
    let time = |given: Option<u32>, otherwise: Duration| {
        let given = given.map(|it| Duration::from_millis(it.into()));
        given.map_or(otherwise, |it| it.max(LEAST_TIME))
    };
    Server {
        connections: wire
            .connections
            .map_or(otherwise.connections, |it| (it as usize).max(1)),
        head: time(wire.head_timeout_ms, otherwise.head),
        body: time(wire.body_timeout_ms, otherwise.body),
        idle: time(wire.idle_timeout_ms, otherwise.idle),
        request_bytes: wire
            .request_bytes
            .map_or(otherwise.request_bytes, |it| (it as usize).max(LEAST_BODY)),
    }
}

/// Nobody could say anything in less.
const LEAST_TIME: Duration = Duration::from_millis(100);
const LEAST_BODY: usize = 1024;

/// What `glee serve` bears from those who connect.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WireServer {
    /// How many connections there may be at once; 1 024 unless given. When there are more, those that wait for
    /// nothing but their client's next word are closed first.
    #[serde(default)]
    connections: Option<u32>,
    /// How long the head of a request may take; 10 000 unless given, 100 at least.
    #[serde(default)]
    head_timeout_ms: Option<u32>,
    /// How long the body of a request may take, beside a second for each 64 KiB of it; 30 000 unless given, 100 at
    /// least.
    #[serde(default)]
    body_timeout_ms: Option<u32>,
    /// How long a connection may be silent between two requests, and how long a client may not read its answer;
    /// 60 000 unless given, 100 at least.
    #[serde(default)]
    idle_timeout_ms: Option<u32>,
    /// Largest body of a request; 4 194 304 unless given, 1 024 at least.
    #[serde(default)]
    request_bytes: Option<u32>,
}
