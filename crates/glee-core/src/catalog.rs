//! All tools at one moment. A call takes the snapshot once and never locks; a change makes a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::ToolSpec;
use crate::name;
use crate::outcome::{Failure, FailureKind};

#[derive(Default)]
pub struct Catalog(ArcSwap<Snapshot>);

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    tools: BTreeMap<String, Arc<ToolSpec>>,
    /// Documents that name a tool and cannot be used, with the reason.
    broken: BTreeMap<String, String>,
}

impl Catalog {
    pub fn new(snapshot: Snapshot) -> Catalog {
        Catalog(ArcSwap::from_pointee(snapshot))
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }

    /// Replaces everything at once. A tool whose new document is broken keeps its last good version.
    pub fn replace(&self, mut next: Snapshot) {
        let before = self.snapshot();
        for name in next.broken.keys() {
            if let Some(last_good) = before.tools.get(name) {
                next.tools.insert(name.clone(), last_good.clone());
            }
        }
        self.0.store(Arc::new(next));
    }
}

impl Snapshot {
    pub fn insert(&mut self, spec: ToolSpec) {
        self.tools.insert(spec.name.clone(), Arc::new(spec));
    }

    pub fn insert_broken(&mut self, name: String, reason: String) {
        self.broken.insert(name, reason);
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.values()
    }

    pub fn broken(&self) -> impl Iterator<Item = (&str, &str)> {
        self.broken
            .iter()
            .map(|(name, reason)| (name.as_str(), reason.as_str()))
    }

    pub fn find(&self, name: &str) -> Result<Arc<ToolSpec>, Failure> {
        if let Some(spec) = self.tools.get(name) {
            return Ok(spec.clone());
        }
        if let Some(reason) = self.broken.get(name) {
            return Err(Failure::new(
                FailureKind::Disabled,
                format!("`{name}` cannot be used: {reason}"),
            )
            .hint("run `glee lint` to see every problem"));
        }
        let failure = Failure::new(FailureKind::NotFound, format!("there is no tool `{name}`"));
        Err(
            match name::nearest(
                name,
                self.tools
                    .keys()
                    .chain(self.broken.keys())
                    .map(String::as_str),
            ) {
                Some(near) => failure
                    .with("nearest", near)
                    .hint(format!("did you mean `{near}`?")),
                None => failure.hint("run `glee list` to see the tools of this project"),
            },
        )
    }
}
