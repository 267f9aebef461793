//! `telemetry:` of the config: who is told of calls.

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use crate::dialect::problem::Problem;
use crate::dialect::yaml::Node;

/// Where traces go, as OTLP over HTTP.
pub(super) fn traces(
    wire: &WireTelemetry,
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Option<Url> {
    let given = wire.otlp.as_deref()?;
    match Url::parse(given) {
        Ok(mut url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            if url.path() == "/" {
                url.set_path("/v1/traces");
            }
            Some(url)
        }
        _ => {
            let message = "a collector is told over http or https: `http://127.0.0.1:4318`";
            let place = node.place_of("/telemetry/otlp");
            problems.push(Problem::error("url", place, message));
            None
        }
    }
}

/// Who is told of calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WireTelemetry {
    /// A collector of OpenTelemetry, which gets a span for each call by OTLP over HTTP (JSON); nobody unless given.
    /// Without a path `/v1/traces` is meant.
    #[serde(default)]
    otlp: Option<String>,
}
