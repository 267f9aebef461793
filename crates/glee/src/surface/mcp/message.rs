//! The messages of clients that are seen to beside rmcp: calls of tools, and that one is taken back. Whatever does not
//! read as one of these is rmcp's.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rmcp::model::{CallToolRequestParams, CancelledNotificationParam, RequestId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

pub(super) const CALL: &str = "tools/call";
const CANCELLED: &str = "notifications/cancelled";

// What is looked for in every line is made ready once.
static IN_CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CALL));
static IN_CANCELLED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CANCELLED));

#[derive(Deserialize)]
struct Asked<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    params: CallToolRequestParams,
    #[serde(default)]
    result: Given,
    #[serde(default)]
    error: Given,
}

#[derive(Deserialize)]
struct TakenBack<'a> {
    jsonrpc: &'a str,
    /// Only a request has one.
    #[serde(default)]
    id: Given,
    method: &'a str,
    params: CancelledNotificationParam,
    #[serde(default)]
    result: Given,
    #[serde(default)]
    error: Given,
}

/// Whether a member is there, be it `null`. What is a request and an answer at once is neither.
#[derive(Default)]
struct Given(bool);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Given(true))
    }
}

pub(super) fn call(message: &[u8]) -> Option<(RequestId, CallToolRequestParams)> {
    let it: Asked = read(message, &IN_CALL)?;
    let is_one = (it.jsonrpc, it.method) == ("2.0", CALL) && !it.result.0 && !it.error.0;
    is_one.then_some((it.id, it.params))
}

/// The call that is taken back.
pub(super) fn taken_back(message: &[u8]) -> Option<RequestId> {
    let it: TakenBack = read(message, &IN_CANCELLED)?;
    let is_more = it.id.0 || it.result.0 || it.error.0;
    let is_one = (it.jsonrpc, it.method) == ("2.0", CANCELLED) && !is_more;
    it.params.request_id.filter(|_| is_one)
}

fn read<'a, T: Deserialize<'a>>(message: &'a [u8], method: &Finder<'_>) -> Option<T> {
    // A list would be read as the members of an object.
    let is_object = message.trim_ascii_start().starts_with(b"{");
    if !is_object || method.find(message).is_none() {
        return None;
    }
    // Also where nothing is read of it, a text is one.
    serde_json::from_str(std::str::from_utf8(message).ok()?).ok()
}
