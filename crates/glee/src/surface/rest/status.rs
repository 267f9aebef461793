//! Which failure has which status.

use axum::http::StatusCode;
use glee_core::outcome::FailureKind;

pub(super) fn of(kind: FailureKind) -> StatusCode {
    match kind {
        FailureKind::InvalidInput | FailureKind::InvalidPath => StatusCode::BAD_REQUEST,
        FailureKind::PermissionDenied
        | FailureKind::RuleDenied
        | FailureKind::ApprovalRequired
        | FailureKind::ApprovalDenied
        | FailureKind::HostNotAllowed => StatusCode::FORBIDDEN,
        FailureKind::NotFound | FailureKind::FileNotFound => StatusCode::NOT_FOUND,
        FailureKind::Disabled | FailureKind::Conflict => StatusCode::CONFLICT,
        FailureKind::SecretNotFound => StatusCode::FAILED_DEPENDENCY,
        FailureKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        FailureKind::HttpError | FailureKind::ExecutionError | FailureKind::OutputInvalid => {
            StatusCode::BAD_GATEWAY
        }
        FailureKind::SandboxUnavailable
        | FailureKind::AuditUnavailable
        | FailureKind::LockTimeout => StatusCode::SERVICE_UNAVAILABLE,
        FailureKind::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        // Who went away does not read it; others stopped it.
        FailureKind::Cancelled => StatusCode::CONFLICT,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
