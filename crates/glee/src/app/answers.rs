//! What people are asked about calls, and how they answer.

use std::sync::Arc;

use glee_core::event::{Event, What};
use glee_core::model::ToolSpec;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::policy::{self, Verdict};
use glee_core::port::{Caller, Cancel, Matter, Waits};
use glee_core::redact::Redactor;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{App, Call, invocation};
use crate::approve::ledger::{self, Decision};
use crate::config::Elicitation;
use crate::config::standing::Standing;
use crate::store::approvals::{Approvals, LOOK};
use crate::store::record::{Record, State};

impl App {
    /// What need not ask any more, because a person said so.
    pub fn standing_rules(&self) -> Arc<Vec<Standing>> {
        self.ledger.rules()
    }

    /// The rule by which a call need not ask, if there is one.
    pub fn standing_rule_for(&self, call: Call) -> Option<Standing> {
        let call = invocation(call);
        let admitted = self.runtime.preview(&call).ok()?;
        self.ledger.rule_for(&Matter {
            spec: admitted.spec(),
            args: admitted.args(),
            caller: &call.caller,
        })
    }

    /// What people were asked, and what became of it.
    pub fn approvals(&self) -> &Approvals {
        self.ledger.store()
    }

    /// Comes back when a question does not wait for an answer any more.
    pub async fn answered(&self, id: Uuid) -> Option<Record> {
        loop {
            let record = self.approvals().get(id).ok().flatten()?;
            if record.state != State::Pending {
                return Some(record);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Which clients are trusted to ask their own users.
    pub fn elicitation(&self) -> Elicitation {
        **self.elicitation.load()
    }

    /// Answers a question for a person. Arguments that they choose are held to everything that the
    /// caller's own are held to.
    pub fn decide(&self, id: Uuid, decision: Decision, by: &str) -> Result<Record, Failure> {
        let record = self.approvals().get(id).ok().flatten();
        let record = record.ok_or_else(|| ledger::unknown(id))?;
        let spec = self.tools().find(&record.tool).ok();
        let decision = match decision {
            Decision::Approve {
                scope,
                modified: Some(args),
                patterns,
            } => Decision::Approve {
                scope,
                modified: Some(self.judged(&record, args)?),
                patterns,
            },
            other => other,
        };
        let decided = self.ledger.decide(id, spec.as_deref(), &decision, by)?;
        self.tell_answer(&decided, spec.as_deref())?;
        Ok(decided)
    }

    /// Arguments in place of those that were asked about, with defaults filled in.
    fn judged(
        &self,
        record: &Record,
        args: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        let call = invocation(Call {
            tool: record.tool.clone(),
            args,
            caller: Caller {
                name: record.caller.clone(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: Arc::new(Waits),
            approval: None,
        });
        let admitted = self.runtime.preview(&call)?;
        match policy::strictest(&self.objections(&admitted, &call.caller)) {
            Some(Verdict {
                rule,
                decision: policy::Decision::Deny { reason },
            }) => {
                Err(Failure::new(FailureKind::RuleDenied, reason.clone())
                    .with("rule", rule.as_str()))
            }
            _ => Ok(admitted.args().clone()),
        }
    }

    fn tell_answer(&self, record: &Record, spec: Option<&ToolSpec>) -> Result<(), Failure> {
        let Some(answer) = &record.answer else {
            return Ok(());
        };
        let secrets = spec.map(|it| self.runtime.gate.secrets_of(it));
        let redactor = Redactor::new(&secrets.unwrap_or_default());
        let event = Event {
            id: record.id,
            at: self.runtime.clock.now(),
            tool: record.tool.clone(),
            document: spec.map(|it| it.document),
            actor: answer.by.clone(),
            args: redactor.map(record.runs().clone()).into(),
            held: None,
            trail: Vec::new(),
            what: What::Answered {
                approval: record.id,
                answer: match answer.modified_args {
                    Some(_) => "modified",
                    None => answer.said.name(),
                },
                reason: answer.reason.clone(),
            },
        };
        self.runtime.tell(&event).map_err(|err| {
            let message = format!(
                "{} is {}, but that could not be recorded: {err}",
                record.id,
                record.state.name()
            );
            Failure::new(FailureKind::AuditUnavailable, message).hint(
                "a call is not made before it can be recorded; `glee doctor` looks at the audit",
            )
        })
    }
}
