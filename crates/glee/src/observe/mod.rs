//! Those who listen to calls.

pub mod audit;
pub mod log;
pub mod metrics;
mod queue;
pub mod traces;

use glee_core::event::{Event, What};
use glee_core::outcome::FailureKind;
use glee_core::policy::Decision;

/// What stands for a tool that nobody knows: whoever calls chose its name.
const OTHER: &str = "other";

fn tool(event: &Event) -> &str {
    match event.document {
        Some(_) => &event.tool,
        None => OTHER,
    }
}

/// What was decided about a call that is over; nothing when it never came to that.
fn decision(event: &Event) -> &'static str {
    let asked = event.trail.iter().any(|it| it.by.starts_with("approval"));
    let asks = |it: &Decision| matches!(it, Decision::Ask { .. });
    match &event.what {
        What::Refused { kind, .. } => match kind {
            FailureKind::RuleDenied => "deny",
            FailureKind::ApprovalRequired | FailureKind::ApprovalDenied => "ask",
            _ => "none",
        },
        _ if asked || event.trail.iter().any(|it| asks(&it.decision)) => "ask",
        _ => "allow",
    }
}

/// How a call ended, in one word.
fn outcome(failure: Option<FailureKind>) -> &'static str {
    failure.map_or("OK", FailureKind::code)
}
