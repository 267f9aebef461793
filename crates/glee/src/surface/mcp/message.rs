//! The messages of clients that are seen to beside rmcp: calls of tools, and that one is taken back. Whatever does not
//! read as one of these is rmcp's.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rmcp::model::{CallToolRequestParams, CancelledNotificationParam, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;

const CALL: &str = "tools/call";
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
}

#[derive(Deserialize)]
struct TakenBack<'a> {
    jsonrpc: &'a str,
    /// Only a request has one.
    id: Option<IgnoredAny>,
    method: &'a str,
    params: CancelledNotificationParam,
}

pub(super) fn call(message: &[u8]) -> Option<(RequestId, CallToolRequestParams)> {
    let it: Asked = read(message, &IN_CALL)?;
    ((it.jsonrpc, it.method) == ("2.0", CALL)).then_some((it.id, it.params))
}

/// The call that is taken back.
pub(super) fn taken_back(message: &[u8]) -> Option<RequestId> {
    let it: TakenBack = read(message, &IN_CANCELLED)?;
    let is_one = (it.jsonrpc, it.method) == ("2.0", CANCELLED) && it.id.is_none();
    it.params.request_id.filter(|_| is_one)
}

fn read<'a, T: Deserialize<'a>>(message: &'a [u8], method: &Finder<'_>) -> Option<T> {
    // A list would be read as the members of an object.
    let is_object = message.trim_ascii_start().starts_with(b"{");
    if !is_object || method.find(message).is_none() {
        return None;
    }
    serde_json::from_slice(message).ok()
}
