//! Exit codes, and which failure has which.

use std::process::ExitCode;

use glee_core::outcome::FailureKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Failed,
    Usage,
    Refused,
    Cancelled,
    /// A program that was run by hand ended with this.
    OfProgram(u8),
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Ok => 0,
            Status::Failed => 1,
            Status::Usage => 2,
            Status::Refused => 3,
            Status::Cancelled => 130,
            Status::OfProgram(code) => code,
        })
    }
}

pub(super) fn of(kind: FailureKind) -> Status {
    match kind {
        FailureKind::InvalidInput | FailureKind::NotFound => Status::Usage,
        FailureKind::Disabled
        | FailureKind::InvalidPath
        | FailureKind::PermissionDenied
        | FailureKind::RuleDenied
        | FailureKind::ApprovalRequired
        | FailureKind::ApprovalDenied
        | FailureKind::SecretNotFound
        | FailureKind::SandboxUnavailable
        | FailureKind::HostNotAllowed
        | FailureKind::RateLimited
        | FailureKind::AuditUnavailable => Status::Refused,
        FailureKind::FileNotFound
        | FailureKind::HttpError
        | FailureKind::ExecutionError
        | FailureKind::Timeout
        | FailureKind::OutputInvalid
        | FailureKind::Conflict
        | FailureKind::LockTimeout
        | FailureKind::StorageFull
        | FailureKind::Internal => Status::Failed,
        FailureKind::Cancelled => Status::Cancelled,
    }
}
