//! What people said: kept on disk, bound to the very call they saw, and used once.

mod bind;
mod decide;
mod words;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use glee_core::consent::{denied, required};
use glee_core::json;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Answer, Approvals, Consent, Kept, Lasting, Matter, Recalled, Using};
use serde_json::Value;
use uuid::Uuid;

use crate::config;
use crate::config::standing::Standing;
use crate::store::approvals::{self as store, Alone, Running};
use crate::store::record::{Authority, Record, Said, State, deadlines, timestamp};
use bind::Bound;
pub use decide::Decision;
pub use words::unknown;
use words::{how_to_resume, over, reason_of, unkept};

/// Largest arguments that can be put to a person, in bytes. They are shown whole or not at all.
const MOST_SHOWN: usize = 64 << 10;

pub struct Ledger {
    root: PathBuf,
    store: store::Approvals,
    limits: config::Approvals,
    /// Who need not ask, for which tool with which digest, until this process ends.
    sessions: Mutex<HashSet<(String, String, String)>>,
    rules_file: PathBuf,
    rules: ArcSwap<Vec<Standing>>,
}

impl Ledger {
    pub fn new(
        root: PathBuf,
        store: store::Approvals,
        limits: config::Approvals,
        rules_file: PathBuf,
        rules: Vec<Standing>,
    ) -> Ledger {
        Ledger {
            root,
            store,
            limits,
            sessions: Mutex::default(),
            rules_file,
            rules: ArcSwap::from_pointee(rules),
        }
    }

    pub fn store(&self) -> &store::Approvals {
        &self.store
    }

    /// What need not ask any more.
    pub fn rules(&self) -> Arc<Vec<Standing>> {
        self.rules.load_full()
    }

    pub fn replace_rules(&self, rules: Vec<Standing>) {
        self.rules.store(Arc::new(rules));
    }

    /// The rule by which a call need not ask, if there is one.
    pub fn rule_for(&self, matter: &Matter<'_>) -> Option<Standing> {
        let rules = self.rules();
        let of_tool = |it: &&Standing| it.tool == matter.spec.name;
        if !rules.iter().any(|it| of_tool(&it)) {
            return None;
        }
        let digest = self.digest(matter.spec)?;
        let Matter { spec, args, caller } = matter;
        let covers = |it: &&Standing| it.covers(&spec.name, &digest, &caller.name, args);
        rules.iter().find(covers).cloned()
    }

    fn alone(&self) -> Result<Alone<'_>, Failure> {
        self.store.alone().map_err(unkept)
    }

    /// What is known of this very call: one question at a time, and an answer as long as it is good.
    fn known(&self, all: &[Record], matter: &Matter<'_>, bound: &Bound) -> Option<Kept> {
        let mine = all
            .iter()
            .filter(|it| it.caller == matter.caller.name && it.binding == bound.binding);
        // Where a rule was written, the rule decides, also when it is taken out again.
        let by_rule = |it: &&Record| {
            it.state == State::Approved
                && it.answer.as_ref().is_some_and(|it| it.said == Said::Always)
        };
        let mut mine = mine.filter(|it| !by_rule(it));
        let open =
            |it: &&Record| matches!(it.state, State::Pending | State::Approved | State::Denied);
        let record = mine.rfind(open)?;
        let id = record.id;
        Some(match record.state {
            State::Approved => Kept::Approved {
                id,
                args: record.runs().clone(),
                reason: record.reason.clone(),
            },
            State::Denied => Kept::Denied {
                id,
                reason: reason_of(record),
            },
            _ => Kept::Open {
                id,
                expires_at: record.expires_at.to_string(),
            },
        })
    }

    /// Whether it was answered by a rule that nobody wants any more.
    fn is_taken_out(&self, record: &Record, matter: &Matter<'_>) -> bool {
        let said = record.answer.as_ref().map(|it| it.said);
        let runs = Matter {
            args: record.runs(),
            ..*matter
        };
        said == Some(Said::Always) && self.rule_for(&runs).is_none()
    }

    fn ask(
        &self,
        alone: &Alone<'_>,
        matter: &Matter<'_>,
        bound: Bound,
        reason: &str,
    ) -> Result<Record, Failure> {
        let all = alone.list().map_err(unkept)?;
        let pending = all.iter().filter(|it| it.state == State::Pending);
        let of_one = pending.clone().filter(|it| it.caller == matter.caller.name);
        if of_one.count() >= self.limits.most_pending_of_one
            || pending.count() >= self.limits.most_pending
        {
            return Err(Failure::new(
                FailureKind::RateLimited,
                "too many questions wait for an answer already",
            )
            .hint("a person can answer them: `glee approvals list`")
            .retryable());
        }
        let clock = self.store.clock();
        let (expires_at, boot) = deadlines(clock, self.limits.expire_after);
        let record = Record {
            id: Uuid::now_v7(),
            state: State::Pending,
            tool: matter.spec.name.clone(),
            args: matter.args.clone(),
            caller: matter.caller.name.clone(),
            reason: reason.to_owned(),
            authority: Authority::of(&matter.spec.permissions),
            project: self.root.to_string_lossy().into_owned(),
            tool_digest: bound.digest,
            binding: bound.binding,
            asked_at: timestamp(clock),
            expires_at,
            boot,
            answer: None,
            started: None,
            finished: None,
            void: None,
        };
        alone.insert(&record).map_err(unkept)?;
        Ok(record)
    }
}

impl Approvals for Ledger {
    fn standing(&self, matter: &Matter<'_>) -> Option<Consent> {
        if let Some(rule) = self.rule_for(matter) {
            return Some(Consent::Standing {
                by: format!("rule {}", rule.name),
                digest: rule.digest,
            });
        }
        let has_any = |sessions: &HashSet<(String, String, String)>| {
            let is_it = |it: &&(String, String, String)| {
                it.0 == matter.caller.name && it.1 == matter.spec.name
            };
            sessions.iter().any(|it| is_it(&it))
        };
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_any(&sessions) {
            return None;
        }
        let digest = self.digest(matter.spec)?;
        let key = (
            matter.caller.name.clone(),
            matter.spec.name.clone(),
            digest.clone(),
        );
        sessions.contains(&key).then(|| Consent::Standing {
            by: "approval for this session".to_owned(),
            digest,
        })
    }

    fn denied(&self, matter: &Matter<'_>) -> Result<Option<(Uuid, String)>, Failure> {
        let bound = self.bound(matter)?;
        let all = self.store.list().map_err(unkept)?;
        Ok(match self.known(&all, matter, &bound) {
            Some(Kept::Denied { id, reason }) => Some((id, reason)),
            _ => None,
        })
    }

    fn open(&self, matter: &Matter<'_>, reason: &str) -> Result<Kept, Failure> {
        let size = json::canonical(&Value::Object(matter.args.clone())).len();
        if size > MOST_SHOWN {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                format!(
                    "`{}` runs only when a person approves, and {size} bytes of arguments are more than a person can be shown; {MOST_SHOWN} are the most",
                    matter.spec.name
                ),
            )
            .hint("hand over large content in a file, and name the file"));
        }
        let bound = self.bound(matter)?;
        let alone = self.alone()?;
        alone.sweep().map_err(unkept)?;
        let all = alone.list().map_err(unkept)?;
        if let Some(known) = self.known(&all, matter, &bound) {
            return Ok(known);
        }
        let record = self.ask(&alone, matter, bound, reason)?;
        Ok(Kept::Open {
            id: record.id,
            expires_at: record.expires_at.to_string(),
        })
    }

    fn answer(
        &self,
        id: Uuid,
        matter: &Matter<'_>,
        answer: &Answer,
        by: &str,
    ) -> Result<(), Failure> {
        let decision = match answer {
            Answer::Denied { reason } => Decision::Deny {
                reason: reason.clone(),
            },
            Answer::Approved => Decision::approve(Said::Once),
            Answer::Lasting(Lasting::Session) => Decision::approve(Said::Session),
            Answer::Lasting(Lasting::Always) => Decision::approve(Said::Always),
            Answer::Amended(args) => Decision::Approve {
                scope: Said::Once,
                modified: Some(args.clone()),
                patterns: Vec::new(),
            },
            Answer::Nobody { .. } => return Ok(()),
        };
        match self.decide(id, Some(matter.spec), &decision, by) {
            Ok(_) => Ok(()),
            // Somebody else answered meanwhile, elsewhere. Their answer counts if it is the same.
            Err(failure) if failure.kind == FailureKind::Conflict => {
                let record = self.store.get(id).map_err(unkept)?;
                match record {
                    Some(it) if it.state == State::Approved && decision.is_yes() => Ok(()),
                    Some(it) if it.state == State::Denied => {
                        Err(denied(matter, id, &reason_of(&it)))
                    }
                    Some(it) if it.void.is_some() => Err(self.ask_anew(matter)?),
                    _ => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    fn recall(&self, id: Uuid, matter: &Matter<'_>) -> Result<Recalled, Failure> {
        let alone = self.alone()?;
        let mut record = found(&alone, id)?;
        // To others it does not exist.
        if record.caller != matter.caller.name {
            return Err(unknown(id));
        }
        match record.state {
            State::Approved => {}
            State::Pending => {
                return Err(
                    required(matter, id, &record.expires_at.to_string(), &record.reason)
                        .hint(how_to_resume(id)),
                );
            }
            State::Denied => return Err(denied(matter, id, &reason_of(&record))),
            _ => return Err(over(&record)),
        }
        let given = match matter.args.is_empty() {
            true => record.args.clone(),
            false => matter.args.clone(),
        };
        let is_meant = given == record.args || given == *record.runs();
        let asked = Matter {
            args: &record.args.clone(),
            ..*matter
        };
        let bound = self.bound(&asked)?;
        let what = if record.tool != matter.spec.name {
            "another tool was approved"
        } else if !is_meant {
            "other arguments were approved"
        } else if bound.digest != record.tool_digest {
            "the tool's files"
        } else if bound.binding != record.binding {
            "what the tool may do"
        } else if self.is_taken_out(&record, matter) {
            return Err(Failure::new(
                FailureKind::Conflict,
                format!("{id} was approved by a rule, which is not in .glee/rules.yml any more"),
            )
            .hint("make the call again without it, and a person is asked anew"));
        } else {
            return Ok(Recalled::Approved {
                amended: *record.runs() != record.args,
                args: record.runs().clone(),
                reason: record.reason.clone(),
            });
        };
        // A caller who names the wrong call does not take the yes from the right one.
        if is_meant && record.tool == matter.spec.name {
            self.make_void(&alone, &mut record, what);
        }
        Ok(Recalled::Changed {
            args: given,
            what: what.to_owned(),
        })
    }

    fn start(
        &self,
        consent: &Consent,
        matter: &Matter<'_>,
        call: Uuid,
    ) -> Result<Box<dyn Using>, Failure> {
        let id = match consent {
            Consent::NotNeeded => return Ok(Box::new(Unkept)),
            Consent::Standing { digest, .. } => {
                return match self.digest(matter.spec).as_ref() == Some(digest) {
                    true => Ok(Box::new(Unkept)),
                    false => Err(self.ask_anew(matter)?),
                };
            }
            Consent::Once(id) => *id,
        };
        let alone = self.alone()?;
        let mut record = found(&alone, id)?;
        if record.state != State::Approved {
            return Err(over(&record));
        }
        let bound = self.bound(matter)?;
        if record.caller != matter.caller.name || record.bound_to() != bound.binding {
            self.make_void(&alone, &mut record, "the tool's files");
            drop(alone);
            return Err(self.ask_anew(matter)?);
        }
        let said = record.answer.as_ref().map(|it| it.said);
        let digest = record.tool_digest.clone();
        let running = alone.start(record, call).map_err(unkept)?;
        if said == Some(Said::Session) {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.insert((matter.caller.name.clone(), matter.spec.name.clone(), digest));
        }
        Ok(Box::new(Noted(running)))
    }
}

impl Ledger {
    /// Something changed between the yes and the run.
    fn ask_anew(&self, matter: &Matter<'_>) -> Result<Failure, Failure> {
        let reason = "what was approved has changed (the tool's files)";
        Ok(match self.open(matter, reason)? {
            Kept::Open { id, expires_at } => {
                required(matter, id, &expires_at, reason).hint(how_to_resume(id))
            }
            Kept::Approved { id, .. } => required(matter, id, "", reason).hint(how_to_resume(id)),
            Kept::Denied { id, reason } => denied(matter, id, &reason),
        })
    }
}

struct Noted(Running);

impl Using for Noted {
    fn over(self: Box<Self>, failure: Option<FailureKind>) {
        // What cannot be written is told as indeterminate, and never run again.
        let _ = self.0.finish(failure.map_or("success", FailureKind::code));
    }
}

/// A yes that was not for one run only.
struct Unkept;

impl Using for Unkept {
    fn over(self: Box<Self>, _: Option<FailureKind>) {}
}

fn found(alone: &Alone<'_>, id: Uuid) -> Result<Record, Failure> {
    alone.get(id).map_err(unkept)?.ok_or_else(|| unknown(id))
}
