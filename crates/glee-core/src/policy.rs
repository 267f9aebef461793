//! Verdicts before a call. They are ordered, the strictest wins, and not knowing is the strictest.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};

use crate::ceiling;
use crate::model::{Approval, Depends, ToolSpec};
use crate::outcome::Failure;
use crate::permission::Ceiling;
use crate::port::{Caller, Files};
use crate::rule::place::Ground;
use crate::rule::reach::Reach;

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
    pub files: &'a dyn Files,
    reach: OnceCell<Reach>,
    own: OnceCell<Result<Option<String>, Failure>>,
}

impl<'a> Case<'a> {
    pub fn new(
        spec: &'a ToolSpec,
        args: &'a Map<String, Value>,
        caller: &'a Caller,
        root: &'a Path,
        files: &'a dyn Files,
    ) -> Case<'a> {
        Case {
            spec,
            args,
            caller,
            root,
            files,
            reach: OnceCell::new(),
            own: OnceCell::new(),
        }
    }

    /// What the call would run and touch: read once, for all rules.
    pub fn reach(&self) -> &Reach {
        self.reach
            .get_or_init(|| Reach::of(self.spec, self.args, self.root, self.files.home()))
    }

    /// Why the tool itself says that a person must agree, where its arguments decide that. It is asked
    /// once, so that what is then run can be held to what it said.
    fn own(&self, depends: &Depends) -> &Result<Option<String>, Failure> {
        self.own.get_or_init(|| (depends.0)(self.args, self.root))
    }

    /// Why the tool itself says that the call cannot be made, whoever agrees to it.
    pub fn refused(&self) -> Option<&Failure> {
        self.own.get()?.as_ref().err()
    }

    /// What the tool itself said, if a rule has asked it.
    pub fn said(&self) -> Said {
        match self.own.get() {
            None => Said::NotAsked,
            Some(Ok(None) | Err(_)) => Said::Nobody,
            Some(Ok(Some(reason))) => Said::Because(reason.clone()),
        }
    }

    pub fn ground(&self) -> Ground<'_> {
        Ground {
            root: self.root,
            home: self.files.home(),
            files: self.files,
        }
    }
}

/// Whether a person must agree to a call, by the tool itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has no say in this call.
    NotAsked,
    Nobody,
    Because(String),
}

/// One reason to stop or question a call.
pub trait Rule: Send + Sync {
    fn name(&self) -> &str;

    /// What it holds calls to, in one line.
    fn about(&self) -> &str;

    /// What would change its decision.
    fn remedy(&self) -> &str;

    /// An `Err` says why the rule could not decide; it counts as a denial.
    fn judge(&self, case: &Case<'_>) -> Result<Decision, String>;
}

/// The rules that calls are held to, until others take their place.
pub struct Rules(ArcSwap<Vec<Box<dyn Rule>>>);

impl Rules {
    pub fn new(rules: Vec<Box<dyn Rule>>) -> Rules {
        Rules(ArcSwap::from_pointee(rules))
    }

    pub fn now(&self) -> Arc<Vec<Box<dyn Rule>>> {
        self.0.load_full()
    }

    pub fn replace(&self, rules: Vec<Box<dyn Rule>>) {
        self.0.store(Arc::new(rules));
    }
}

/// What one rule says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub rule: String,
    pub decision: Decision,
}

/// What the rules that do not simply allow the call say, in their order.
pub fn objections(rules: &[Box<dyn Rule>], case: &Case<'_>) -> Vec<Verdict> {
    let verdict = |rule: &dyn Rule| {
        let decision = rule.judge(case).unwrap_or_else(|err| Decision::Deny {
            reason: format!("the rule `{}` could not decide: {err}", rule.name()),
        });
        (decision != Decision::Allow).then(|| Verdict {
            rule: rule.name().to_owned(),
            decision,
        })
    };
    rules.iter().filter_map(|it| verdict(&**it)).collect()
}

/// The strictest of them; the first one among equals.
pub fn strictest(objections: &[Verdict]) -> Option<&Verdict> {
    objections
        .iter()
        .rev()
        .max_by_key(|it| it.decision.strictness())
}

/// A rule that somebody else holds too.
impl<T: Rule> Rule for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn about(&self) -> &str {
        (**self).about()
    }

    fn remedy(&self) -> &str {
        (**self).remedy()
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        (**self).judge(case)
    }
}

impl Decision {
    /// The other one, if it is stricter.
    pub fn or_stricter(self, other: Decision) -> Decision {
        match other.strictness() > self.strictness() {
            true => other,
            false => self,
        }
    }

    fn strictness(&self) -> u8 {
        match self {
            Decision::Allow => 0,
            Decision::Ask { .. } => 1,
            Decision::Deny { .. } => 2,
        }
    }
}

/// Asks when the tool itself says that a person must agree.
pub struct ManifestApproval {
    /// What agents made asks also where people's own tools need not.
    pub of: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    AllTools,
    AgentsTools,
}

impl ManifestApproval {
    pub(crate) const NAME: &str = "approval";
}

impl Rule for ManifestApproval {
    fn name(&self) -> &str {
        ManifestApproval::NAME
    }

    fn about(&self) -> &str {
        "asks when the tool's own manifest says that a person must agree"
    }

    fn remedy(&self) -> &str {
        "another `approval` in the tool's manifest"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        Ok(match &case.spec.approval {
            Approval::Never => Decision::Allow,
            _ if self.of == Asking::AgentsTools && !case.spec.origin.is_agent() => Decision::Allow,
            Approval::Always { reason } => Decision::Ask {
                reason: reason.clone(),
            },
            Approval::When { reason, condition } => match condition.holds(case.args) {
                Ok(false) => Decision::Allow,
                Ok(true) => Decision::Ask {
                    reason: reason.clone(),
                },
                // What cannot be told asks.
                Err(why) => Decision::Ask {
                    reason: format!("{reason} ({why})"),
                },
            },
            Approval::Depends(on) => match case.own(on) {
                Ok(None) => Decision::Allow,
                Ok(Some(reason)) => Decision::Ask {
                    reason: reason.clone(),
                },
                // Nobody need be asked about what cannot be done.
                Err(failure) => Decision::Deny {
                    reason: failure.message.clone(),
                },
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

    fn about(&self) -> &str {
        "never runs a tool made by an agent that asks for more than the project's ceiling"
    }

    fn remedy(&self) -> &str {
        "fewer permissions in the tool's manifest, or more in `security.max_permissions`"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        if !case.spec.origin.is_agent() {
            return Ok(Decision::Allow);
        }
        let excess = ceiling::beyond(case.spec, &self.0, case.root, case.files);
        if excess.is_empty() {
            return Ok(Decision::Allow);
        }
        Ok(Decision::Deny {
            reason: format!("beyond max_permissions: {}", excess.join(", ")),
        })
    }
}
