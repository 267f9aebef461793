//! A person's yes: recalled when the caller comes back with it, or asked for.
//!
//! Every question is kept before it is asked, and every answer before it counts. What a person said is
//! used up by the runtime, immediately before the run.

use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::admit::{Gate, Invocation};
use crate::event::{Step, What, Witness};
use crate::model::ToolSpec;
use crate::outcome::{Failure, FailureKind};
use crate::policy::Decision;
use crate::port::{Answer, Consent, Kept, Lasting, Matter, Question, Recalled};

/// What a person was asked before, by the id that the caller came back with.
pub(crate) struct Before {
    id: Uuid,
    recalled: Recalled,
}

/// Arguments that a person chose, and that have to be judged before they count.
pub(crate) struct Chosen {
    id: Uuid,
    /// Who chose them, when that is not kept yet.
    by: Option<String>,
    /// Why they were asked.
    told: String,
}

pub(crate) enum Reply {
    Yes(Consent),
    /// A yes to these arguments, which may be others than were asked about.
    Instead(Map<String, Value>, Chosen),
}

pub(crate) fn recall(
    gate: &Gate,
    spec: &ToolSpec,
    call: &Invocation,
) -> Result<Option<Before>, Failure> {
    let Some(id) = call.approval else {
        return Ok(None);
    };
    let mut args = call.args.clone();
    if !args.is_empty() {
        // Defaults were filled in before the question was put; what cannot be filled is not it.
        let _ = spec.inputs.fill(&mut args);
    }
    let matter = Matter {
        spec,
        args: &args,
        caller: &call.caller,
    };
    let recalled = gate.approvals.recall(id, &matter)?;
    Ok(Some(Before { id, recalled }))
}

impl Before {
    pub(crate) fn args(&self) -> &Map<String, Value> {
        match &self.recalled {
            Recalled::Approved { args, .. } | Recalled::Changed { args, .. } => args,
        }
    }

    pub(crate) fn is_amended(&self) -> bool {
        matches!(self.recalled, Recalled::Approved { amended: true, .. })
    }

    pub(crate) fn chosen(&self) -> Option<Chosen> {
        match &self.recalled {
            Recalled::Approved { reason, .. } => Some(Chosen {
                id: self.id,
                by: None,
                told: reason.clone(),
            }),
            Recalled::Changed { .. } => None,
        }
    }
}

/// Why a person must be asked. What was approved and is not the same any more asks in any case.
pub(crate) fn because(asks: Option<String>, before: Option<&Before>) -> Option<String> {
    let changed = before.and_then(|it| match &it.recalled {
        Recalled::Changed { what, .. } => Some(what),
        Recalled::Approved { .. } => None,
    });
    match (asks, changed) {
        (asks, None) => asks,
        (None, Some(what)) => Some(format!("what was approved has changed ({what})")),
        (Some(reason), Some(what)) => {
            Some(format!("{reason}; what was approved has changed ({what})"))
        }
    }
}

impl Chosen {
    /// Whether this was among the reasons that the person was given.
    pub(crate) fn was_told(&self, reason: &str) -> bool {
        self.told.contains(reason)
    }

    /// The arguments were judged, and nothing speaks against them.
    pub(crate) fn keep(
        self,
        gate: &Gate,
        matter: &Matter<'_>,
        witness: &mut dyn Witness,
    ) -> Result<Consent, Failure> {
        if let Some(by) = &self.by {
            let answer = Answer::Amended(matter.args.clone());
            gate.approvals.answer(self.id, matter, &answer, by)?;
            told(self.id, matter, &answer, by, witness);
        }
        witness.step(step(self.id, Decision::Allow));
        Ok(Consent::Once(self.id))
    }
}

/// What was said earlier counts first; then what is on record; then a person is asked.
pub(crate) async fn ask(
    gate: &Gate,
    matter: &Matter<'_>,
    call: &Invocation,
    reason: &str,
    witness: &mut dyn Witness,
) -> Result<Reply, Failure> {
    if let Some(consent) = gate.approvals.standing(matter) {
        // A yes to other calls does not take back the no to this one.
        if let Some((id, reason)) = gate.approvals.denied(matter)? {
            witness.step(step(
                id,
                Decision::Deny {
                    reason: reason.clone(),
                },
            ));
            return Err(denied(matter, id, &reason));
        }
        if let Consent::Standing { by, .. } = &consent {
            witness.step(Step {
                by: by.clone(),
                decision: Decision::Allow,
            });
        }
        return Ok(Reply::Yes(consent));
    }
    let (id, expires_at) = match gate.approvals.open(matter, reason)? {
        Kept::Approved { id, args, reason } => {
            let chosen = Chosen {
                id,
                by: None,
                told: reason,
            };
            return Ok(Reply::Instead(args, chosen));
        }
        Kept::Denied { id, reason } => {
            let reason = reason.clone();
            witness.step(step(
                id,
                Decision::Deny {
                    reason: reason.clone(),
                },
            ));
            return Err(denied(matter, id, &reason));
        }
        Kept::Open { id, expires_at } => (id, expires_at),
    };
    witness.tell(
        &matter.caller.name,
        matter.args,
        What::Asked {
            approval: id,
            reason: reason.to_owned(),
        },
    );
    let question = Question {
        id,
        spec: matter.spec,
        args: matter.args,
        caller: matter.caller,
        reason,
    };
    let approver = call.party.approver().unwrap_or(&*gate.approver);
    // A caller who is gone need not be asked about any more.
    let answer = match select(approver.ask(&question), Box::pin(call.cancel.cancelled())).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => {
            return Err(Failure::new(
                FailureKind::Cancelled,
                format!(
                    "`{}` was cancelled before it was approved",
                    matter.spec.name
                ),
            ));
        }
    };
    let by = approver.name();
    match answer {
        Answer::Amended(args) => {
            let chosen = Chosen {
                id,
                by: Some(by.to_owned()),
                told: reason.to_owned(),
            };
            Ok(Reply::Instead(args, chosen))
        }
        Answer::Approved | Answer::Lasting(_) => {
            gate.approvals.answer(id, matter, &answer, by)?;
            told(id, matter, &answer, by, witness);
            witness.step(step(id, Decision::Allow));
            Ok(Reply::Yes(Consent::Once(id)))
        }
        Answer::Denied { ref reason } => {
            gate.approvals.answer(id, matter, &answer, by)?;
            told(id, matter, &answer, by, witness);
            witness.step(step(
                id,
                Decision::Deny {
                    reason: reason.clone(),
                },
            ));
            Err(denied(matter, id, reason))
        }
        Answer::Nobody { hint } => {
            witness.step(step(
                id,
                Decision::Ask {
                    reason: reason.to_owned(),
                },
            ));
            Err(required(matter, id, &expires_at, reason).hint(format!(
                "{hint}; or a person answers with `glee approvals approve {id}`, and then it is called again with this approval_id"
            )))
        }
    }
}

/// How a call is answered that waits for a person.
pub fn required(matter: &Matter<'_>, id: Uuid, expires_at: &str, reason: &str) -> Failure {
    Failure::new(
        FailureKind::ApprovalRequired,
        format!(
            "`{}` runs only when a person approves: {reason}",
            matter.spec.name
        ),
    )
    .with("approval_id", id.to_string())
    .with("expires_at", expires_at)
}

/// How a call is answered that a person said no to.
pub fn denied(matter: &Matter<'_>, id: Uuid, reason: &str) -> Failure {
    Failure::new(
        FailureKind::ApprovalDenied,
        format!("a person refused to run `{}`: {reason}", matter.spec.name),
    )
    .with("approval_id", id.to_string())
}

fn step(id: Uuid, decision: Decision) -> Step {
    Step {
        by: format!("approval {id}"),
        decision,
    }
}

fn told(id: Uuid, matter: &Matter<'_>, answer: &Answer, by: &str, witness: &mut dyn Witness) {
    let what = What::Answered {
        approval: id,
        answer: word(answer),
        reason: match answer {
            Answer::Denied { reason } => reason.clone(),
            _ => String::new(),
        },
    };
    witness.tell(by, matter.args, what);
}

/// An answer, in a word.
pub fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Approved => "once",
        Answer::Lasting(Lasting::Session) => "session",
        Answer::Lasting(Lasting::Always) => "always",
        Answer::Amended(_) => "modified",
        Answer::Denied { .. } => "denied",
        Answer::Nobody { .. } => "nobody",
    }
}
