//! The messages of clients that are seen to beside rmcp: calls of tools, and that one is taken back. Whatever does not
//! read as one of these is rmcp's.

use memchr::memmem;
use rmcp::model::{CallToolRequestParams, CancelledNotificationParam, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;

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
    let it: Asked = read(message, "tools/call")?;
    ((it.jsonrpc, it.method) == ("2.0", "tools/call")).then_some((it.id, it.params))
}

/// The call that is taken back.
pub(super) fn taken_back(message: &[u8]) -> Option<RequestId> {
    let it: TakenBack = read(message, "notifications/cancelled")?;
    let is_one = (it.jsonrpc, it.method) == ("2.0", "notifications/cancelled") && it.id.is_none();
    it.params.request_id.filter(|_| is_one)
}

fn read<'a, T: Deserialize<'a>>(message: &'a [u8], method: &str) -> Option<T> {
    // A list would be read as the members of an object.
    let is_object = message.trim_ascii_start().starts_with(b"{");
    if !is_object || memmem::find(message, method.as_bytes()).is_none() {
        return None;
    }
    serde_json::from_slice(message).ok()
}
