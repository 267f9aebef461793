//! What is wrong with a document, and where.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// A stable word for the kind of problem, such as `unknown-placeholder`.
    pub rule: &'static str,
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// Byte range in the document's text.
    pub place: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    Error,
}

impl Problem {
    pub fn error(rule: &'static str, place: Range<usize>, message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Error,
            rule,
            message: message.into(),
            fix: None,
            place,
        }
    }

    pub fn warning(rule: &'static str, place: Range<usize>, message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Warning,
            ..Problem::error(rule, place, message)
        }
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = Some(fix.into());
        self
    }
}
