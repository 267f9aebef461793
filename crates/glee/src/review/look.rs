//! A person looks at a tool that an agent made, and decides about just what they have seen.

use std::sync::Arc;

use glee_core::authority::{self, Point};
use glee_core::ceiling;
use glee_core::event::What;
use glee_core::model::{Origin, Standing, ToolSpec};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;

use super::diff::diff;
use super::files::{self, Part};
use super::trial;
use crate::app::{App, Seen};
use crate::dialect::manifest;
use crate::dialect::problem::Severity;
use crate::store::durable;
use crate::store::reviews::{Decision, Record, Trials, Tried, now};

/// A tool that an agent made, in a list of them.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub name: String,
    pub description: String,
    pub creator: String,
    pub created_at: Option<String>,
    pub standing: Standing,
}

/// All that a person needs to decide.
#[derive(Clone, Debug)]
pub struct Look {
    pub spec: Arc<ToolSpec>,
    pub creator: String,
    pub client: Option<String>,
    pub created_at: String,
    pub standing: Standing,
    /// Names what was seen; a decision is about this and nothing else.
    pub digest: String,
    pub manifest: String,
    pub files: Vec<Part>,
    pub authority: Vec<Point>,
    /// What it asks for beyond the ceiling. Then it cannot be approved.
    pub excess: Vec<String>,
    /// What is other than it was when it was last decided about, and how the manifest differs.
    pub changes: Vec<String>,
    pub diff: Vec<String>,
    pub trials: Vec<Tried>,
}

pub enum Ruling {
    Approve,
    Deny { reason: String },
}

impl App {
    /// The tools that agents made, as they are now.
    pub fn made_by_agents(&self) -> Vec<Waiting> {
        let tools = self.tools();
        let made = tools.tools().filter_map(|spec| {
            let Origin::Agent { creator, standing } = self.origin(spec) else {
                return None;
            };
            let record = self.review_records().get(&spec.name).ok().flatten();
            Some(Waiting {
                name: spec.name.clone(),
                description: spec.description.clone(),
                creator,
                created_at: record.map(|it| it.created_at),
                standing,
            })
        });
        made.collect()
    }

    /// A tool as a person should see it. Its examples are run if they have not been since it changed.
    pub async fn look(&self, name: &str, by: &Caller) -> Result<Look, Failure> {
        let mut look = self.glance(name)?;
        let record = self.record_of(&look.spec)?;
        look.trials = match record.trials {
            Some(known) if known.digest == look.digest => known.examples,
            _ => {
                let examples = trial::all(self, &look.spec, by).await;
                self.keep(&look, examples.clone())?;
                examples
            }
        };
        Ok(look)
    }

    fn glance(&self, name: &str) -> Result<Look, Failure> {
        let (spec, seen) = self.as_it_is(name)?;
        let Origin::Agent { .. } = self.origin(&spec) else {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("`{name}` was not made by an agent, and needs no review"),
            ));
        };
        let record = self.record_of(&spec)?;
        let Seen {
            digest,
            manifest,
            pieces,
        } = seen;
        let files = files::shown(pieces);
        let (changes, diff) = match &record.decision {
            Some(last) if last.digest != digest => since(last, &spec, &manifest, &files),
            _ => Default::default(),
        };
        Ok(Look {
            standing: record.standing(Some(&digest)),
            creator: record.creator,
            client: record.client,
            created_at: record.created_at,
            digest,
            manifest,
            authority: authority::summary(&spec),
            excess: self.excess(&spec)?,
            files,
            changes,
            diff,
            trials: Vec::new(),
            spec,
        })
    }

    /// Decides about a tool as it was seen. Whoever made it has no say.
    pub fn rule_on(
        &self,
        name: &str,
        seen: &str,
        by: &Caller,
        ruling: Ruling,
    ) -> Result<(), Failure> {
        let records = self.review_records();
        let _alone = records.alone().map_err(|err| unkept(&err))?;
        let look = self.glance(name)?;
        if look.creator == by.name {
            let why = format!("`{}` made `{name}`, and cannot decide about it", by.name);
            return Err(Failure::new(FailureKind::PermissionDenied, why));
        }
        if look.digest != seen {
            return Err(changed_since(name));
        }
        let (approved, reason) = match ruling {
            Ruling::Approve => (true, String::new()),
            Ruling::Deny { reason } => (false, reason),
        };
        if approved && !look.excess.is_empty() {
            let why = format!(
                "beyond security.max_permissions: {}",
                look.excess.join(", ")
            );
            return Err(Failure::new(FailureKind::PermissionDenied, why)
                .hint("let the tool ask for less, or raise the ceiling in .glee/config.yml"));
        }
        let what = What::Reviewed {
            approved,
            reason: reason.clone(),
        };
        self.note(name, Some(look.spec.document), by, what)?;
        let mut record = self.record_of(&look.spec)?;
        record.decision = Some(Decision {
            approved,
            by: by.name.clone(),
            at: now(),
            reason,
            digest: look.digest,
            manifest: look.manifest,
            files: files::hashes(&look.files),
        });
        records.put(name, &record).map_err(|err| unkept(&err))?;
        // Whoever serves the project hears of it by the change on disk; this process needs not wait.
        let _ = self.reload();
        Ok(())
    }

    /// Edits a tool as it was seen. Whoever made it has no say.
    pub fn edit_as_seen(
        &self,
        name: &str,
        seen: &str,
        by: &Caller,
        text: &str,
    ) -> Result<(), Failure> {
        if self.glance(name)?.creator == by.name {
            let why = format!("`{}` made `{name}`, and cannot edit it", by.name);
            return Err(Failure::new(FailureKind::PermissionDenied, why));
        }
        self.edit_manifest(name, Some(seen), text)
    }

    /// Puts another manifest in the place of a tool's. It may ask for less than before, never for more.
    pub fn edit_manifest(&self, name: &str, seen: Option<&str>, text: &str) -> Result<(), Failure> {
        let records = self.review_records();
        let _alone = records.alone().map_err(|err| unkept(&err))?;
        let (before, now) = self.as_it_is(name)?;
        if seen.is_some_and(|it| it != now.digest) {
            return Err(changed_since(name));
        }
        // An agent's tool stays one, also when its manifest no longer says so.
        if records.get(name).map_err(|err| unkept(&err))?.is_none() {
            let record = self.record_of(&before)?;
            records.put(name, &record).map_err(|err| unkept(&err))?;
        }
        let read = manifest::read(text, name, &before.source);
        let errors = read.problems.iter();
        let errors: Vec<&str> = errors
            .filter(|it| it.severity == Severity::Error)
            .map(|it| it.message.as_str())
            .collect();
        let Some(spec) = read.model.filter(|_| errors.is_empty()) else {
            let why = format!("the manifest cannot be used: {}", errors.join("; "));
            return Err(Failure::new(FailureKind::InvalidInput, why));
        };
        let most = before.permissions.as_ceiling();
        let root = self.project().root();
        let excess = spec.permissions.beyond(&most, root, self.files());
        if !excess.is_empty() {
            let why = format!("more than the agent asked for: {}", excess.join(", "));
            return Err(Failure::new(FailureKind::PermissionDenied, why)
                .hint("permissions can only be taken away in a review"));
        }
        durable::replace(&before.source, text.as_bytes()).map_err(|err| unkept(&err))?;
        self.reload()
            .map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))
    }

    /// The tool as it stands on disk.
    fn as_it_is(&self, name: &str) -> Result<(Arc<ToolSpec>, Seen), Failure> {
        let mut spec = self.tools().find(name)?;
        let mut seen = self.seen(&spec);
        if seen.is_none() {
            // It has changed, and that was not taken in yet.
            self.reload()
                .map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
            spec = self.tools().find(name)?;
            seen = self.seen(&spec);
        }
        let seen = seen.ok_or_else(|| {
            let why = format!("`{name}` is too large to be reviewed, or is just being written");
            Failure::new(FailureKind::Disabled, why)
        })?;
        Ok((spec, seen))
    }

    /// What is known of a tool. One whose manifest names an agent may have no record yet.
    fn record_of(&self, spec: &ToolSpec) -> Result<Record, Failure> {
        let known = self
            .review_records()
            .get(&spec.name)
            .map_err(|err| unkept(&err))?;
        let creator = match &spec.origin {
            Origin::Agent { creator, .. } => creator.clone(),
            Origin::User | Origin::BuiltIn => String::new(),
        };
        Ok(known.unwrap_or(Record {
            creator,
            client: None,
            // That is when anybody first heard of it.
            created_at: now(),
            trials: None,
            decision: None,
        }))
    }

    fn excess(&self, spec: &ToolSpec) -> Result<Vec<String>, Failure> {
        let config = self
            .config()
            .map_err(|err| Failure::new(FailureKind::PermissionDenied, err.to_string()))?;
        let (most, root) = (&config.max_permissions, self.project().root());
        Ok(ceiling::beyond(spec, most, root, self.files()))
    }

    /// Keeps how the examples ran, unless the tool has changed meanwhile.
    fn keep(&self, look: &Look, examples: Vec<Tried>) -> Result<(), Failure> {
        let records = self.review_records();
        let _alone = records.alone().map_err(|err| unkept(&err))?;
        let mut record = self.record_of(&look.spec)?;
        record.trials = Some(Trials {
            digest: look.digest.clone(),
            examples,
        });
        records
            .put(&look.spec.name, &record)
            .map_err(|err| unkept(&err))
    }
}

/// What is other than it was when it was decided about.
fn since(
    last: &Decision,
    spec: &ToolSpec,
    manifest: &str,
    files: &[Part],
) -> (Vec<String>, Vec<String>) {
    let before = manifest::read(&last.manifest, &spec.name, &spec.source).model;
    let mut changes = before.map_or_else(Vec::new, |it| authority::changes(&it, spec));
    let now = files::hashes(files);
    for (name, hash) in &now {
        match last.files.get(name) {
            None => changes.push(format!("new: the file {name}")),
            Some(old) if old != hash => changes.push(format!("changed: the file {name}")),
            Some(_) => {}
        }
    }
    let gone = last.files.keys().filter(|it| !now.contains_key(*it));
    changes.extend(gone.map(|it| format!("gone: the file {it}")));
    (changes, diff(&last.manifest, manifest))
}

fn changed_since(name: &str) -> Failure {
    let why = format!("`{name}` is no longer what was looked at");
    Failure::new(FailureKind::Conflict, why).hint("look at it again")
}

fn unkept(err: &std::io::Error) -> Failure {
    let why = format!("the review could not be kept: {err}");
    Failure::new(FailureKind::Internal, why)
}
