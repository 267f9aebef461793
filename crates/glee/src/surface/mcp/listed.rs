//! Lists of tools go out as bytes that were made once. rmcp makes each answer from values, which takes
//! longer than all the rest when there are thousands of tools. So it is given one tool that stands for
//! all, and where an answer leaves the server, their bytes take its place.

use std::ops::Range;

use bytes::{Buf, Bytes};
use memchr::memmem::Finder;
use rmcp::model::{JsonObject, Tool};
use uuid::Uuid;

use super::Server;

/// The tool that stands for all. Its name is this process's own and never leaves it, so that nothing
/// else that is sent can be taken for it.
pub(super) struct StandIn {
    pub(super) tool: Tool,
    text: Finder<'static>,
}

impl StandIn {
    pub(super) fn new() -> StandIn {
        let name = Uuid::new_v4().to_string();
        let tool = Tool::new(name, "", JsonObject::new());
        // Made in the way in which rmcp makes answers.
        let text = serde_json::to_vec(&tool).unwrap_or_default();
        StandIn {
            tool,
            text: Finder::new(&text).into_owned(),
        }
    }
}

/// As they stand in an answer: one after the other, without the brackets.
pub(super) fn text(tools: &[Tool]) -> Bytes {
    let mut text = Bytes::from(serde_json::to_vec(tools).unwrap_or_default());
    text.truncate(text.len().saturating_sub(1));
    text.advance(1.min(text.len()));
    text
}

impl Server {
    /// Where in an answer the list of tools belongs, and the list, when it is an answer that has one.
    pub fn list_in(&self, answer: &[u8]) -> Option<(Range<usize>, Bytes)> {
        let text = &self.shared.stand_in.text;
        let start = text.find(answer)?;
        let end = start + text.needle().len();
        Some((start..end, self.shown().listed.clone()))
    }
}
