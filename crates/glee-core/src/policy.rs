//! Verdicts before a call. They are ordered, the strictest wins, and not knowing is the strictest.

use std::path::Path;

use serde_json::{Map, Value};

use crate::model::{Approval, Origin, ToolSpec};
use crate::permission::Ceiling;
use crate::port::Caller;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    Allow,
    Ask { reason: String },
    Deny { reason: String },
}

/// What a rule looks at.
pub struct Case<'a> {
    pub spec: &'a ToolSpec,
    pub args: &'a Map<String, Value>,
    pub caller: &'a Caller,
    pub root: &'a Path,
}

/// One reason to stop or question a call.
pub trait Rule: Send + Sync {
    fn name(&self) -> &str;

    /// An `Err` says why the rule could not decide; it counts as a denial.
    fn judge(&self, case: &Case<'_>) -> Result<Decision, String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    /// The rule that decided; none when nothing objected.
    pub rule: Option<String>,
}

/// The strictest decision of all rules; the first rule wins among equals.
pub fn judge(rules: &[Box<dyn Rule>], case: &Case<'_>) -> Verdict {
    let mut verdict = Verdict {
        decision: Decision::Allow,
        rule: None,
    };
    for rule in rules {
        let decision = rule.judge(case).unwrap_or_else(|err| Decision::Deny {
            reason: format!("the rule `{}` could not decide: {err}", rule.name()),
        });
        if decision.strictness() > verdict.decision.strictness() {
            verdict = Verdict {
                decision,
                rule: Some(rule.name().to_owned()),
            };
        }
    }
    verdict
}

impl Decision {
    fn strictness(&self) -> u8 {
        match self {
            Decision::Allow => 0,
            Decision::Ask { .. } => 1,
            Decision::Deny { .. } => 2,
        }
    }
}

/// Asks when the tool itself says that a person must agree.
pub struct ManifestApproval;

impl Rule for ManifestApproval {
    fn name(&self) -> &str {
        "approval"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        Ok(match &case.spec.approval {
            Approval::Never => Decision::Allow,
            Approval::Always { reason } => Decision::Ask {
                reason: reason.clone(),
            },
        })
    }
}

/// Denies tools made by agents what the project's ceiling does not hold.
pub struct AgentCeiling(pub Ceiling);

impl Rule for AgentCeiling {
    fn name(&self) -> &str {
        "max_permissions"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        if case.spec.origin == Origin::User {
            return Ok(Decision::Allow);
        }
        let excess = case.spec.permissions.beyond(&self.0, case.root);
        if excess.is_empty() {
            return Ok(Decision::Allow);
        }
        Ok(Decision::Deny {
            reason: format!("beyond max_permissions: {}", excess.join(", ")),
        })
    }
}
