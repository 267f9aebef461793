//! How much is done without a person: a level for the project, by what a tool can do.

use std::sync::Arc;

use super::custom::{CustomRule, Ruling};
use crate::model::{Exec, Method, ToolSpec};
use crate::permission::Network;
use crate::policy::{Case, Decision, Rule};

/// How much a project leaves to its agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A human is in the loop: everything asks.
    Hitl,
    Supervised,
    Autonomous,
    /// Nothing asks, not even a manifest that people wrote.
    Yolo,
}

/// The most a tool can do, by its permissions and annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Reads,
    Network,
    Writes,
    Destructive,
}

/// From which severity on a level asks.
const ASKS_FROM: &[(Level, Option<Severity>)] = &[
    (Level::Hitl, Some(Severity::Reads)),
    (Level::Supervised, Some(Severity::Network)),
    (Level::Autonomous, Some(Severity::Destructive)),
    (Level::Yolo, None),
];

impl Severity {
    pub fn of(spec: &ToolSpec) -> Severity {
        let deletes = matches!(&spec.exec, Exec::Http(http) if http.method == Method::Delete);
        if spec.annotations.destructive == Some(true) || deletes {
            Severity::Destructive
        } else if !spec.permissions.write.is_empty() {
            Severity::Writes
        } else if spec.permissions.network != Network::None {
            Severity::Network
        } else {
            Severity::Reads
        }
    }

    /// As services outside say it.
    pub fn safety_level(self) -> &'static str {
        match self {
            Severity::Reads => "low",
            Severity::Network | Severity::Writes => "medium",
            Severity::Destructive => "high",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Severity::Reads => "only reads",
            Severity::Network => "uses the network",
            Severity::Writes => "writes files",
            Severity::Destructive => "can destroy something",
        }
    }
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Hitl => "hitl",
            Level::Supervised => "supervised",
            Level::Autonomous => "autonomous",
            Level::Yolo => "yolo",
        }
    }

    pub fn asks(self, severity: Severity) -> bool {
        let from = ASKS_FROM.iter().find(|(level, _)| *level == self);
        from.and_then(|(_, from)| *from)
            .is_some_and(|from| severity >= from)
    }
}

/// Asks by the level; what a rule of the project allows need not be asked for this reason.
pub struct Autonomy {
    pub level: Level,
    pub rules: Vec<Arc<CustomRule>>,
}

impl Rule for Autonomy {
    fn name(&self) -> &str {
        "autonomy"
    }

    fn about(&self) -> &str {
        "asks by what a tool can do, as the project's autonomy says"
    }

    fn remedy(&self) -> &str {
        "another `autonomy` in `.glee/config.yml`, or a rule there that allows the call"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        let severity = Severity::of(case.spec);
        let allows = |rule: &Arc<CustomRule>| {
            rule.ruling() == Ruling::Allow && rule.speaks_of(case) == Ok(true)
        };
        if !self.level.asks(severity) || self.rules.iter().any(allows) {
            return Ok(Decision::Allow);
        }
        Ok(Decision::Ask {
            reason: format!(
                "it {}, and autonomy is {}",
                severity.in_words(),
                self.level.name()
            ),
        })
    }
}
