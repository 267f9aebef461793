//! What people said: kept on disk, bound to the very call they saw, and used once.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use data_encoding::HEXLOWER;
use glee_core::consent::{denied, required};
use glee_core::json;
use glee_core::model::{Exec, ToolSpec};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::{Network, SecretNeed};
use glee_core::port::{Answer, Approvals, Caller, Consent, Kept, Lasting, Matter, Recalled, Using};
use glee_sandbox::is_placeholder;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::config;
use crate::config::standing::{self, Standing};
use crate::exec;
use crate::store::approvals::{self as store, Alone, Running};
use crate::store::record::{Answered, Authority, Record, Said, State, deadlines, timestamp};
use crate::store::{digest, durable};

/// Largest arguments that can be put to a person, in bytes. They are shown whole or not at all.
const MOST_SHOWN: usize = 64 << 10;
/// Longest reason of a no.
const LONGEST_REASON: usize = 4096;

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

    /// Of the tool as it is on disk now; nothing for a tool that is too large for one.
    pub fn digest(&self, spec: &ToolSpec) -> Option<String> {
        // A function of this program is what its document says, in this version.
        if let Exec::Native(_) = &spec.exec {
            let version = env!("CARGO_PKG_VERSION").as_bytes();
            let whole = Sha256::new_with_prefix(spec.document).chain_update(version);
            return Some(HEXLOWER.encode(&whole.finalize()));
        }
        let entry = exec::entry(spec, &self.root);
        let mut programs = digest::Programs::default();
        digest::digest(spec, entry.as_deref(), &self.root, &mut programs)
    }

    fn bound(&self, matter: &Matter<'_>) -> Result<Bound, Failure> {
        let digest = self.digest(matter.spec).ok_or_else(|| {
            Failure::new(
                FailureKind::PermissionDenied,
                format!(
                    "`{}` cannot be approved: its files are too many or too large to tell whether they changed",
                    matter.spec.name
                ),
            )
        })?;
        let document = json!({
            "project": self.root.to_string_lossy(),
            "tool": matter.spec.name,
            "tool_digest": digest,
            "args": matter.args,
            "permissions": permissions(matter.spec),
            "caller": matter.caller.name,
        });
        let binding = HEXLOWER.encode(&Sha256::digest(json::canonical(&document)));
        Ok(Bound { digest, binding })
    }

    fn alone(&self) -> Result<Alone<'_>, Failure> {
        self.store.alone().map_err(unkept)
    }

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
    fn make_void(&self, alone: &Alone<'_>, record: &mut Record, what: &str) {
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
                "a rule cannot be written now: a tool that may write in the whole project holds the place of .glee/rules.yml",
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
        let mine = mine.filter(|it| !by_rule(it));
        let open =
            |it: &&Record| matches!(it.state, State::Pending | State::Approved | State::Denied);
        let record = mine.filter(open).next_back()?;
        let id = record.id;
        Some(match record.state {
            State::Approved => Kept::Approved {
                id,
                args: record.runs().clone(),
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
        } else {
            return Ok(Recalled::Approved {
                amended: *record.runs() != record.args,
                args: record.runs().clone(),
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
        let bound = self.bound(matter)?;
        let alone = self.alone()?;
        let mut record = found(&alone, id)?;
        if record.state != State::Approved {
            return Err(over(&record));
        }
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

    fn is_yes(&self) -> bool {
        matches!(self, Decision::Approve { .. })
    }
}

/// What a yes is held against.
struct Bound {
    digest: String,
    binding: String,
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

pub fn unknown(id: Uuid) -> Failure {
    Failure::new(FailureKind::NotFound, format!("there is no approval {id}"))
        .hint("`glee approvals list` shows what there is")
}

fn gone(record: &Record) -> Failure {
    Failure::new(
        FailureKind::Conflict,
        format!("there is no tool `{}` any more", record.tool),
    )
}

/// Why a question that is not open any more cannot be answered or used.
fn over(record: &Record) -> Failure {
    let id = record.id;
    let again = "make the call again without it, and a person is asked anew";
    let (kind, why) = match (record.state, &record.void) {
        (State::Pending, _) => (
            FailureKind::ApprovalRequired,
            "waits for an answer".to_owned(),
        ),
        (State::Approved, _) => (FailureKind::Conflict, "was approved already".to_owned()),
        (State::Denied, _) => (
            FailureKind::Conflict,
            format!("was denied already: {}", reason_of(record)),
        ),
        (State::Expired, Some(why)) => (FailureKind::Conflict, format!("is void: {why}")),
        (State::Expired, None) => (
            FailureKind::ApprovalDenied,
            format!("expired at {}, and that is a no", record.expires_at),
        ),
        (State::Started, _) => (FailureKind::Conflict, "is being run right now".to_owned()),
        (State::Finished, _) => (
            FailureKind::Conflict,
            "was used already, and is good for one run".to_owned(),
        ),
        (State::Indeterminate, _) => (
            FailureKind::Conflict,
            "was started, and it is not known how far that came; it is never run again".to_owned(),
        ),
    };
    Failure::new(kind, format!("approval {id} {why}"))
        .with("approval_id", id.to_string())
        .with("state", record.state.name())
        .hint(again)
}

fn how_to_resume(id: Uuid) -> String {
    format!(
        "a person answers with `glee approvals approve {id}`, and then it is called again with this approval_id"
    )
}

fn reason_of(record: &Record) -> String {
    let reason = record.answer.as_ref().map(|it| it.reason.as_str());
    match reason.unwrap_or_default() {
        "" => "no reason was given".to_owned(),
        given => given.to_owned(),
    }
}

fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(LONGEST_REASON)]
        .trim()
        .to_owned()
}

/// A question that cannot be kept is not asked, and an answer that cannot be kept is none.
fn unkept(err: io::Error) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("what a person is asked cannot be kept in .glee/approvals: {err}"),
    )
    .hint("make `.glee/approvals` writable and free some disk space")
}

fn permissions(spec: &ToolSpec) -> Value {
    let asked = &spec.permissions;
    let secrets: Map<String, Value> = asked
        .secrets
        .iter()
        .map(|(name, need)| (name.clone(), (*need == SecretNeed::Required).into()))
        .collect();
    json!({
        "network": match &asked.network {
            Network::None => json!(false),
            Network::Public => json!(true),
            Network::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
        },
        "read": asked.read,
        "write": asked.write,
        "secrets": secrets,
    })
}
