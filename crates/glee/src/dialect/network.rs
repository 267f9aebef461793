//! How documents write the network permission: `false`, `true`, or `{hosts: [...]}`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::strict;

/// `false`, `true` (any public address), or `{hosts: [api.example.com, "*.example.com", "127.0.0.1:8080"]}`.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
pub enum WireNetwork {
    All(bool),
    Hosts(Hosts),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// A name never opens a private address; naming the address (`10.0.0.0/8`) does.
    pub hosts: Vec<String>,
}

impl<'de> Deserialize<'de> for WireNetwork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WireNetwork, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(all) => Ok(WireNetwork::All(all)),
            other => strict::from_value(other)
                .map(WireNetwork::Hosts)
                .map_err(serde::de::Error::custom),
        }
    }
}
