//! How it is said that something cannot be answered or used.

use std::io;

use glee_core::outcome::{Failure, FailureKind};
use uuid::Uuid;

use crate::store::record::{Record, State};

/// Longest reason of a no.
const LONGEST_REASON: usize = 4096;

pub fn unknown(id: Uuid) -> Failure {
    Failure::new(FailureKind::NotFound, format!("there is no approval {id}"))
        .hint("`glee approvals list` shows what there is")
}

pub(super) fn gone(record: &Record) -> Failure {
    Failure::new(
        FailureKind::Conflict,
        format!("there is no tool `{}` any more", record.tool),
    )
}

/// Why a question that is not open any more cannot be answered or used.
pub(super) fn over(record: &Record) -> Failure {
    let id = record.id;
    let again = "make the call again without it, and a person is asked anew";
    let (kind, why) = match (record.state, &record.void) {
        (State::Pending, _) => (
            FailureKind::ApprovalRequired,
            "waits for an answer".to_owned(),
        ),
        (State::Approved, _) => (FailureKind::Conflict, "was approved already".to_owned()),
        (State::Denied, _) => (
            FailureKind::Conflict,
            format!("was denied already: {}", reason_of(record)),
        ),
        (State::Expired, Some(why)) => (FailureKind::Conflict, format!("is void: {why}")),
        (State::Expired, None) => (
            FailureKind::ApprovalDenied,
            format!("expired at {}, and that is a no", record.expires_at),
        ),
        (State::Started, _) => (FailureKind::Conflict, "is being run right now".to_owned()),
        (State::Finished, _) => (
            FailureKind::Conflict,
            "was used already, and is good for one run".to_owned(),
        ),
        (State::Indeterminate, _) => (
            FailureKind::Conflict,
            "was started, and it is not known how far that came; it is never run again".to_owned(),
        ),
    };
    Failure::new(kind, format!("approval {id} {why}"))
        .with("approval_id", id.to_string())
        .with("state", record.state.name())
        .hint(again)
}

pub(super) fn how_to_resume(id: Uuid) -> String {
    format!(
        "a person answers with `glee approvals approve {id}`, and then it is called again with this approval_id"
    )
}

pub(super) fn reason_of(record: &Record) -> String {
    let reason = record.answer.as_ref().map(|it| it.reason.as_str());
    match reason.unwrap_or_default() {
        "" => "no reason was given".to_owned(),
        given => given.to_owned(),
    }
}

pub(super) fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(LONGEST_REASON)]
        .trim()
        .to_owned()
}

/// A question that cannot be kept is not asked, and an answer that cannot be kept is none.
pub(super) fn unkept(err: io::Error) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("what a person is asked cannot be kept in .glee/approvals: {err}"),
    )
    .hint("make `.glee/approvals` writable and free some disk space")
}
