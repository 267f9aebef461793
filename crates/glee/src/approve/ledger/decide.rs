//! What people decide outside of the call that raised the question, and the rules they make by it.

use glee_core::model::ToolSpec;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Caller, Matter};
use glee_sandbox::is_placeholder;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::bind::Bound;
use super::words::{bounded, gone, over, unkept};
use super::{Ledger, found};
use crate::config::standing;
use crate::store::approvals::Alone;
use crate::store::durable;
use crate::store::record::{Answered, Record, Said, State, timestamp};

/// What a person decides, wherever they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Approve {
        scope: Said,
        modified: Option<Map<String, Value>>,
        /// For a rule that is written: patterns in place of what some arguments are.
        patterns: Vec<(String, String)>,
    },
    Deny {
        reason: String,
    },
}

impl Decision {
    pub fn approve(scope: Said) -> Decision {
        Decision::Approve {
            scope,
            modified: None,
            patterns: Vec::new(),
        }
    }

    pub fn said(&self) -> Said {
        match self {
            Decision::Approve { scope, .. } => *scope,
            Decision::Deny { .. } => Said::Denied,
        }
    }

    pub(super) fn is_yes(&self) -> bool {
        matches!(self, Decision::Approve { .. })
    }
}

impl Ledger {
    /// Answers a question from outside of the call that raised it. `chosen` are arguments that run
    /// in place of those that were asked about; the caller of this has judged them.
    pub fn decide(
        &self,
        id: Uuid,
        spec: Option<&ToolSpec>,
        decision: &Decision,
        by: &str,
    ) -> Result<Record, Failure> {
        let alone = self.alone()?;
        let mut record = found(&alone, id)?;
        if record.caller == by {
            return Err(Failure::new(
                FailureKind::PermissionDenied,
                format!("`{by}` made this call, and cannot answer for a person"),
            )
            .hint("somebody else answers: at a terminal, or with a token of their own"));
        }
        if record.state != State::Pending {
            return Err(over(&record));
        }
        let mut answer = Answered {
            by: by.to_owned(),
            at: timestamp(self.store.clock()),
            said: decision.said(),
            reason: String::new(),
            modified_args: None,
            binding: None,
        };
        let next = match decision {
            Decision::Deny { reason } => {
                answer.reason = bounded(reason);
                State::Denied
            }
            Decision::Approve {
                modified, patterns, ..
            } => {
                let spec = spec.ok_or_else(|| gone(&record))?;
                let caller = Caller {
                    name: record.caller.clone(),
                };
                let args = modified.as_ref().unwrap_or(&record.args).clone();
                let matter = Matter {
                    spec,
                    args: &args,
                    caller: &caller,
                };
                let bound = self.bound(&matter)?;
                self.unchanged(&alone, &mut record, &matter, &bound)?;
                if modified.is_some() {
                    answer.binding = Some(bound.binding.clone());
                    answer.modified_args.clone_from(modified);
                }
                if answer.said == Said::Always {
                    self.write_rule(&record, &args, &bound.digest, patterns, &answer)?;
                }
                State::Approved
            }
        };
        record.answer = Some(answer);
        alone.advance(&mut record, next).map_err(unkept)?;
        Ok(record)
    }

    /// Nobody says yes to a tool that is not the one they were shown.
    fn unchanged(
        &self,
        alone: &Alone<'_>,
        record: &mut Record,
        matter: &Matter<'_>,
        now: &Bound,
    ) -> Result<(), Failure> {
        let asked = Matter {
            args: &record.args.clone(),
            ..*matter
        };
        let what = match now.digest == record.tool_digest {
            false => "the tool's files",
            true if self.bound(&asked)?.binding != record.binding => "what the tool may do",
            true => return Ok(()),
        };
        self.make_void(alone, record, what);
        Err(Failure::new(
            FailureKind::Conflict,
            format!("it cannot be approved any more: {what} changed since it was asked"),
        )
        .hint("the call has to be made again, and is asked about anew"))
    }

    /// A question whose matter changed is good for nothing, also when it changes back.
    pub(super) fn make_void(&self, alone: &Alone<'_>, record: &mut Record, what: &str) {
        record.void = Some(format!("{what} changed"));
        // It fits no call as long as it is changed, so nothing is lost when this cannot be written.
        let _ = alone.advance(record, State::Expired);
    }

    fn write_rule(
        &self,
        record: &Record,
        args: &Map<String, Value>,
        digest: &str,
        patterns: &[(String, String)],
        answer: &Answered,
    ) -> Result<(), Failure> {
        if is_placeholder(&self.rules_file) {
            return Err(Failure::new(
                FailureKind::Conflict,
                "a rule cannot be written now: a tool that may write inside of .glee holds the place of .glee/rules.yml",
            )
            .hint("approve it once, or try again when that tool has ended; an empty .glee/rules.yml, made before, prevents it")
            .retryable());
        }
        let read = standing::load(&self.rules_file).map_err(unkept)?;
        let id = record.id.simple().to_string();
        let new = standing::New {
            name: format!("{}-{}", record.tool, &id[id.len() - 8..]),
            tool: &record.tool,
            digest,
            caller: &record.caller,
            arguments: args.clone(),
            patterns,
            remark: &format!(
                "said by {} at {}, when asked because: {}",
                answer.by, answer.at, record.reason
            ),
        };
        let text = standing::added(&read.text, &new)
            .map_err(|why| Failure::new(FailureKind::Conflict, why))?;
        durable::replace(&self.rules_file, text.as_bytes()).map_err(unkept)?;
        self.replace_rules(standing::read(text).rules.unwrap_or_default());
        Ok(())
    }
}
