//! The gate. What comes out of it is the only thing an executor accepts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::catalog;
use crate::consent::{self, Before, Reply, ask};
use crate::elicit::elicit;
use crate::event::{Step, Witness};
use crate::json;
use crate::model::{Approval, Exec, ToolSpec};
use crate::outcome::{Failure, FailureKind};
use crate::permission::{Grant, Network, SecretNeed};
use crate::policy::{self, Case, Decision, ManifestApproval, Rules, Said, Verdict};
use crate::port::{
    Approvals, Approver, Caller, Cancel, Consent, Deed, Files, Matter, Opinion, Party, Principles,
    Reviews, Secrets,
};
use crate::rule::autonomy::Severity;
use crate::rule::permit;
use crate::schema::{Schema, sentence};
use crate::secret::SecretValues;
use crate::template::Scope;

/// A call as a surface hands it in.
#[derive(Clone)]
pub struct Invocation {
    pub id: Uuid,
    pub tool: String,
    pub args: Map<String, Value>,
    pub caller: Caller,
    /// Shortens the tool's own deadline, never lengthens it.
    pub timeout: Option<Duration>,
    pub cancel: Cancel,
    pub party: Arc<dyn Party>,
    /// The yes that the caller was told to come back with. Without arguments, those that were
    /// approved are meant.
    pub approval: Option<Uuid>,
}

/// What every call of this project is held to.
pub struct Gate {
    pub root: PathBuf,
    pub rules: Rules,
    pub files: Arc<dyn Files>,
    pub principles: Option<Consulted>,
    pub approver: Arc<dyn Approver>,
    pub approvals: Arc<dyn Approvals>,
    pub secrets: Arc<dyn Secrets>,
    pub reviews: Arc<dyn Reviews>,
}

/// A service that has a say in every call.
pub struct Consulted {
    pub service: Arc<dyn Principles>,
    /// What counts when it has no opinion.
    pub otherwise: Otherwise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    Deny,
    /// A person is asked instead.
    Ask,
}

/// A call that passed the gate. Its fields are private and only [`admit`] makes one.
pub struct Admitted {
    id: Uuid,
    spec: Arc<ToolSpec>,
    args: Map<String, Value>,
    secrets: SecretValues,
    grant: Grant,
    root: PathBuf,
    timeout: Duration,
    cancel: Cancel,
    party: Arc<dyn Party>,
    consent: Consent,
    amended: bool,
    agreed: bool,
}

impl Admitted {
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    pub fn args(&self) -> &Map<String, Value> {
        &self.args
    }

    pub fn secrets(&self) -> &SecretValues {
        &self.secrets
    }

    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Who hears what the tool tells while it runs.
    pub fn party(&self) -> &Arc<dyn Party> {
        &self.party
    }

    /// By what it may be made. A yes is not used up before the runtime says so.
    pub fn consent(&self) -> &Consent {
        &self.consent
    }

    /// Whether a person chose other arguments than the caller.
    pub fn is_amended(&self) -> bool {
        self.amended
    }

    /// Whether a person has agreed to what the tool itself would ask for, or nobody need be asked. A
    /// function that said that nobody must be asked may do nothing now that would ask.
    pub fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// What the tool's templates are filled with.
    pub fn scope(&self) -> Scope<'_> {
        Scope::new(&self.args, &self.secrets)
    }
}

/// Review, elicit, fill, check, judge, ask, secrets, grant: each step may refuse, and then the tool does not run.
pub async fn admit(
    gate: &Gate,
    spec: Arc<ToolSpec>,
    call: &Invocation,
    witness: &mut dyn Witness,
) -> Result<Admitted, Failure> {
    review(gate, &spec, witness)?;
    let recalled = consent::recall(gate, &spec, call)?;
    let mut args = match &recalled {
        Some(before) => before.args().clone(),
        None => supply(&spec, call).await?,
    };
    let mut chosen = recalled.as_ref().and_then(Before::chosen);
    let mut amended = recalled.as_ref().is_some_and(Before::is_amended);
    let (consent, agreed) = loop {
        fill(&spec, &mut args)?;
        check(&spec, &mut args)?;
        let Judged { asks, said } = judge(gate, &spec, &args, call, witness)?;
        let unsure = consult(gate, &spec, call, witness).await?;
        let asks = consent::because(asks.or(unsure), recalled.as_ref());
        let matter = Matter {
            spec: &spec,
            args: &args,
            caller: &call.caller,
        };
        match (chosen.take(), asks) {
            // What a person chose is judged again: a denial counts, but they are not asked twice.
            (Some(chosen), _) => {
                // What they were not told they have not agreed to.
                let agreed = match &said {
                    Said::NotAsked => true,
                    Said::Nobody => false,
                    Said::Because(reason) => chosen.was_told(reason),
                };
                break (chosen.keep(gate, &matter, witness)?, agreed);
            }
            (None, None) => break (Consent::NotNeeded, said == Said::NotAsked),
            (None, Some(reason)) => match ask(gate, &matter, call, &reason, witness).await? {
                Reply::Yes(consent) => break (consent, said != Said::Nobody),
                Reply::Instead(other, by) => {
                    amended |= other != args;
                    args = other;
                    chosen = Some(by);
                }
            },
        }
    };
    // People take their time to answer, and the tool's files may be other ones by then.
    offered(gate, &spec)?;
    let secrets = secrets(gate, &spec)?;
    let timeout = call
        .timeout
        .unwrap_or(spec.limits.timeout)
        .min(spec.limits.timeout);
    Ok(Admitted {
        id: call.id,
        args,
        secrets,
        grant: spec.permissions.grant(&gate.root),
        root: gate.root.clone(),
        timeout,
        cancel: call.cancel.clone(),
        party: call.party.clone(),
        amended,
        agreed,
        consent,
        spec,
    })
}

/// Admits a run of a tool that nobody has approved, for the person who is about to decide: without
/// network, secrets or anything to write, and only where nobody would be asked.
pub async fn trial(
    gate: &Gate,
    spec: &ToolSpec,
    call: &Invocation,
    witness: &mut dyn Witness,
) -> Result<Admitted, Failure> {
    let mut spec = spec.clone();
    // What the sandbox does not hold is not tried.
    if !matches!(spec.exec, Exec::Command(_) | Exec::Python(_)) {
        let why = format!("`{}` does not run in the sandbox", spec.name);
        return Err(Failure::new(FailureKind::PermissionDenied, why));
    }
    spec.permissions.network = Network::None;
    spec.permissions.write.clear();
    spec.permissions.secrets.clear();
    // This is what the person is about to say.
    spec.approval = Approval::Never;
    let mut args = call.args.clone();
    fill(&spec, &mut args)?;
    check(&spec, &mut args)?;
    let Judged { asks, .. } = judge(gate, &spec, &args, call, witness)?;
    let unsure = consult(gate, &spec, call, witness).await?;
    if let Some(reason) = asks.or(unsure) {
        let why = format!("`{}` runs only when a person approves: {reason}", spec.name);
        return Err(Failure::new(FailureKind::ApprovalRequired, why));
    }
    Ok(Admitted {
        id: call.id,
        args,
        secrets: SecretValues::default(),
        grant: spec.permissions.grant(&gate.root),
        root: gate.root.clone(),
        timeout: call
            .timeout
            .unwrap_or(spec.limits.timeout)
            .min(spec.limits.timeout),
        cancel: call.cancel.clone(),
        party: call.party.clone(),
        amended: false,
        agreed: false,
        consent: Consent::NotNeeded,
        spec: Arc::new(spec),
    })
}

/// A tool that an agent made runs only as a person has approved it.
fn review(gate: &Gate, spec: &ToolSpec, witness: &mut dyn Witness) -> Result<(), Failure> {
    if !spec.origin.is_agent() {
        return Ok(());
    }
    let offered = offered(gate, spec);
    witness.step(Step {
        by: "review".to_owned(),
        decision: match &offered {
            Ok(()) => Decision::Allow,
            Err(failure) => Decision::Deny {
                reason: failure.message.clone(),
            },
        },
    });
    offered
}

/// Whether it is what was approved, as it is at this moment.
fn offered(gate: &Gate, spec: &ToolSpec) -> Result<(), Failure> {
    match spec.origin.is_agent() {
        true => catalog::offer(&spec.name, &gate.reviews.origin(spec)),
        false => Ok(()),
    }
}

/// The arguments, with what was asked for. A caller who is gone need not be asked any more.
async fn supply(spec: &ToolSpec, call: &Invocation) -> Result<Map<String, Value>, Failure> {
    let mut args = call.args.clone();
    if spec.elicit.is_empty() {
        return Ok(args);
    }
    let elicited = Box::pin(elicit(&spec.elicit, &spec.inputs, &mut args, &*call.party));
    match select(elicited, Box::pin(call.cancel.cancelled())).await {
        Either::Left((elicited, _)) => elicited?,
        Either::Right(_) => {
            return Err(Failure::new(
                FailureKind::Cancelled,
                format!("`{}` was cancelled before it had its arguments", spec.name),
            ));
        }
    }
    Ok(args)
}

/// Admits for display only: checks the arguments and fills in masks where secrets would stand, so
/// that a dry run needs no secret and shows none.
pub fn preview(gate: &Gate, spec: Arc<ToolSpec>, call: &Invocation) -> Result<Admitted, Failure> {
    let mut args = call.args.clone();
    fill(&spec, &mut args)?;
    check(&spec, &mut args)?;
    let mask = |name: &String| {
        (
            name.clone(),
            crate::secret::Secret::new(format!("<{name}>")),
        )
    };
    Ok(Admitted {
        id: call.id,
        args,
        secrets: spec.permissions.secrets.keys().map(mask).collect(),
        grant: spec.permissions.grant(&gate.root),
        root: gate.root.clone(),
        timeout: spec.limits.timeout,
        cancel: call.cancel.clone(),
        party: call.party.clone(),
        consent: Consent::NotNeeded,
        amended: false,
        agreed: false,
        spec,
    })
}

/// Most values in the arguments of one call. Each is copied, checked and recorded, and takes many
/// times the bytes it was sent in.
const MOST_VALUES: usize = 500_000;

fn fill(spec: &ToolSpec, args: &mut Map<String, Value>) -> Result<(), Failure> {
    spec.inputs.fill(args).map_err(|err| {
        Failure::new(
            FailureKind::InvalidInput,
            format!(
                "the arguments of `{}` cannot be filled in: {err}",
                spec.name
            ),
        )
    })
}

fn check(spec: &ToolSpec, args: &mut Map<String, Value>) -> Result<(), Failure> {
    if let Err(err) = spec.inputs.compile() {
        let message = format!(
            "`{}` cannot be used: inputs.schema{}: {}",
            spec.name, err.pointer, err.reason
        );
        return Err(Failure::new(FailureKind::Disabled, message)
            .hint("run `glee lint` to see every problem"));
    }
    check_arguments(&spec.name, &spec.inputs, args)
}

/// All violations at once, for whatever takes arguments.
pub fn check_arguments(
    of: &str,
    inputs: &Schema,
    args: &mut Map<String, Value>,
) -> Result<(), Failure> {
    if args.values().map(json::count).sum::<usize>() > MOST_VALUES {
        return Err(Failure::new(
            FailureKind::InvalidInput,
            format!("the arguments of `{of}` hold more than {MOST_VALUES} values"),
        ));
    }
    // A schema is about a value. They are lent to one, because to copy them takes longer than to check them.
    let lent = Value::Object(std::mem::take(args));
    let violations = inputs.violations(&lent);
    if let Value::Object(given_back) = lent {
        *args = given_back;
    }
    if violations.is_empty() {
        return Ok(());
    }
    let listed: Vec<Value> = violations
        .iter()
        .map(|it| json!({"pointer": it.pointer, "message": it.message}))
        .collect();
    let message = format!(
        "the arguments of `{of}` are not valid: {}",
        sentence(&violations)
    );
    Err(Failure::new(FailureKind::InvalidInput, message).with("violations", listed))
}

/// What the rules say of a call that they do not deny.
struct Judged {
    /// Why a person must be asked, if one must.
    asks: Option<String>,
    said: Said,
}

fn judge(
    gate: &Gate,
    spec: &ToolSpec,
    args: &Map<String, Value>,
    call: &Invocation,
    witness: &mut dyn Witness,
) -> Result<Judged, Failure> {
    let case = Case::new(spec, args, &call.caller, &gate.root, &*gate.files);
    let objections = policy::objections(&gate.rules.now(), &case);
    for it in &objections {
        witness.step(Step {
            by: format!("rule {}", it.rule),
            decision: it.decision.clone(),
        });
    }
    let said = case.said();
    let asks = match policy::strictest(&objections) {
        None => None,
        Some(Verdict { rule, decision }) => match decision {
            Decision::Allow => None,
            Decision::Ask { reason } => Some(with_own(reason, &said)),
            Decision::Deny { reason } => {
                // What the tool itself says of the call is no rule of anybody's.
                let own = case.refused().filter(|_| rule == ManifestApproval::NAME);
                let denied =
                    || Failure::new(FailureKind::RuleDenied, reason).with("rule", rule.as_str());
                return Err(own.cloned().unwrap_or_else(denied));
            }
        },
    };
    Ok(Judged { asks, said })
}

/// A person who is asked for another reason is told the tool's own as well, or would not know of it.
fn with_own(reason: &str, said: &Said) -> String {
    match said {
        Said::Because(own) if !reason.contains(own.as_str()) => format!("{reason}; {own}"),
        _ => reason.to_owned(),
    }
}

/// `Some(reason)` when a person must be asked, because the service has no opinion.
async fn consult(
    gate: &Gate,
    spec: &ToolSpec,
    call: &Invocation,
    witness: &mut dyn Witness,
) -> Result<Option<String>, Failure> {
    let Some(Consulted { service, otherwise }) = &gate.principles else {
        return Ok(None);
    };
    let project = gate.root.file_name().unwrap_or_default();
    let deed = Deed {
        tool: &spec.name,
        permissions: permit::words(spec),
        safety_level: Severity::of(spec).safety_level(),
        agent: &call.caller.name,
        project: project.to_string_lossy().into_owned(),
    };
    let decision = match (service.consult(&deed).await, otherwise) {
        (Ok(Opinion { allowed: true, .. }), _) => Decision::Allow,
        (Ok(Opinion { reason, .. }), _) => Decision::Deny {
            reason: format!("the principles do not allow it: {reason}"),
        },
        (Err(why), Otherwise::Deny) => Decision::Deny {
            reason: format!("the principles could not be asked: {why}"),
        },
        (Err(why), Otherwise::Ask) => Decision::Ask {
            reason: format!("the principles could not be asked: {why}"),
        },
    };
    witness.step(Step {
        by: "principles".to_owned(),
        decision: decision.clone(),
    });
    match decision {
        Decision::Allow => Ok(None),
        Decision::Ask { reason } => Ok(Some(reason)),
        Decision::Deny { reason } => {
            Err(Failure::new(FailureKind::RuleDenied, reason).with("rule", "principles"))
        }
    }
}

impl Gate {
    /// The declared secrets that are there. An empty variable is how people unset one; it protects
    /// nothing and unlocks nothing.
    pub fn secrets_of(&self, spec: &ToolSpec) -> SecretValues {
        let declared = spec.permissions.secrets.keys();
        declared
            .filter_map(|name| Some((name.clone(), self.secrets.get(name)?)))
            .filter(|(_, secret)| !secret.reveal().trim().is_empty())
            .collect()
    }
}

fn secrets(gate: &Gate, spec: &ToolSpec) -> Result<SecretValues, Failure> {
    let values = gate.secrets_of(spec);
    let missing: Vec<String> = spec
        .permissions
        .secrets
        .iter()
        .filter(|(name, need)| **need == SecretNeed::Required && !values.contains_key(*name))
        .map(|(name, _)| name.clone())
        .collect();
    if missing.is_empty() {
        return Ok(values);
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Err(Failure::new(
        FailureKind::SecretNotFound,
        format!(
            "{} {verb} not set, and `{}` needs it to run",
            missing.join(", "),
            spec.name
        ),
    )
    .hint(format!(
        "export {}=… in the environment glee runs in",
        missing[0]
    ))
    .with("missing", missing))
}
