//! The answer to a call. A failing tool is an answer too.

use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Outcome {
    pub id: Uuid,
    pub tool: String,
    pub result: Result<Output, Failure>,
    pub meta: Meta,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    pub value: Value,
    /// Whether the value is the envelope of a [`crate::content::Content`].
    pub is_content: bool,
    pub warnings: Vec<String>,
    pub truncated: Option<Truncated>,
}

/// A result that was cut: how much was kept, and how much there was, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    pub kept: u64,
    pub total: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    pub version: Option<String>,
    pub kind: Option<&'static str>,
    pub held: Option<Held>,
    pub duration: Duration,
}

/// What holds a call to its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The tier of the sandbox, or `host policy` for requests that glee makes itself.
    pub by: String,
    /// Layers that are not there, each with the reason.
    pub missing: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    pub details: Map<String, Value>,
    pub hint: Option<String>,
    pub retryable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    InvalidInput,
    NotFound,
    Disabled,
    InvalidPath,
    FileNotFound,
    PermissionDenied,
    RuleDenied,
    ApprovalRequired,
    ApprovalDenied,
    SecretNotFound,
    SandboxUnavailable,
    HostNotAllowed,
    HttpError,
    ExecutionError,
    Timeout,
    Cancelled,
    OutputInvalid,
    RateLimited,
    Conflict,
    LockTimeout,
    StorageFull,
    AuditUnavailable,
    Internal,
}

impl FailureKind {
    pub const ALL: [FailureKind; 23] = [
        FailureKind::InvalidInput,
        FailureKind::NotFound,
        FailureKind::Disabled,
        FailureKind::InvalidPath,
        FailureKind::FileNotFound,
        FailureKind::PermissionDenied,
        FailureKind::RuleDenied,
        FailureKind::ApprovalRequired,
        FailureKind::ApprovalDenied,
        FailureKind::SecretNotFound,
        FailureKind::SandboxUnavailable,
        FailureKind::HostNotAllowed,
        FailureKind::HttpError,
        FailureKind::ExecutionError,
        FailureKind::Timeout,
        FailureKind::Cancelled,
        FailureKind::OutputInvalid,
        FailureKind::RateLimited,
        FailureKind::Conflict,
        FailureKind::LockTimeout,
        FailureKind::StorageFull,
        FailureKind::AuditUnavailable,
        FailureKind::Internal,
    ];

    pub fn code(self) -> &'static str {
        match self {
            FailureKind::InvalidInput => "INVALID_INPUT",
            FailureKind::NotFound => "NOT_FOUND",
            FailureKind::Disabled => "DISABLED",
            FailureKind::InvalidPath => "INVALID_PATH",
            FailureKind::FileNotFound => "FILE_NOT_FOUND",
            FailureKind::PermissionDenied => "PERMISSION_DENIED",
            FailureKind::RuleDenied => "RULE_DENIED",
            FailureKind::ApprovalRequired => "APPROVAL_REQUIRED",
            FailureKind::ApprovalDenied => "APPROVAL_DENIED",
            FailureKind::SecretNotFound => "SECRET_NOT_FOUND",
            FailureKind::SandboxUnavailable => "SANDBOX_UNAVAILABLE",
            FailureKind::HostNotAllowed => "HOST_NOT_ALLOWED",
            FailureKind::HttpError => "HTTP_ERROR",
            FailureKind::ExecutionError => "EXECUTION_ERROR",
            FailureKind::Timeout => "TIMEOUT",
            FailureKind::Cancelled => "CANCELLED",
            FailureKind::OutputInvalid => "OUTPUT_INVALID",
            FailureKind::RateLimited => "RATE_LIMITED",
            FailureKind::Conflict => "CONFLICT",
            FailureKind::LockTimeout => "LOCK_TIMEOUT",
            FailureKind::StorageFull => "STORAGE_FULL",
            FailureKind::AuditUnavailable => "AUDIT_UNAVAILABLE",
            FailureKind::Internal => "INTERNAL",
        }
    }
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            details: Map::new(),
            hint: None,
            retryable: false,
        }
    }

    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Failure {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// For whoever reads words: what happened, what to do, and all details; of long ones the first bytes.
    pub fn in_words(&self, longest: usize) -> String {
        let mut text = format!("{}: {}", self.kind.code(), head(&self.message, longest));
        if let Some(hint) = &self.hint {
            text += &format!("\nhint: {hint}");
        }
        if !self.details.is_empty() {
            let details = Value::from(self.details.clone()).to_string();
            text += &format!("\ndetails: {}", head(&details, longest));
        }
        text
    }

    pub fn retryable(mut self) -> Failure {
        self.retryable = true;
        self
    }
}

impl Output {
    /// What whoever reads the value should know of it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.warnings.clone();
        if let Some(cut) = self.truncated {
            let of = cut.total.map_or(String::new(), |it| format!(" of {it}"));
            notes.push(format!("the output was cut after {}{of} bytes", cut.kept));
        }
        notes
    }
}

/// The beginning of a text, and a sign where more was.
pub fn head(text: &str, bytes: usize) -> String {
    match text.len() <= bytes {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(bytes)]),
    }
}
