//! Bundles: named containers of tools, with one switch for all of them; and what may change in them.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::model::ToolSpec;
use crate::outcome::{Failure, FailureKind};
use crate::slug::{self, SlugError};

#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// A UUIDv7.
    pub id: Uuid,
    pub slug: String,
    pub title: String,
    pub description: String,
    pub enabled: bool,
    pub keeper: Keeper,
    pub created_at: SystemTime,
    pub modified_at: SystemTime,
    /// Set by a delete, which can be taken back while the bundle is still there.
    pub deleted_at: Option<SystemTime>,
}

/// Who says what a bundle or a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A document that is changed through the API.
    Store,
    /// A document that a newer glee has written: it is read, and left as it is.
    Newer,
    /// This program, or the project's manifests: only the switch can change.
    Given,
}

/// Where a tool stands. The same slug and version may stand in many bundles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub bundle: Uuid,
    pub slug: String,
    pub version: String,
}

impl Key {
    /// Whether the slug and the version can be any tool's.
    pub fn check(&self) -> Result<(), Failure> {
        let bad = |what: &str, why: SlugError| {
            let why = format!("the {what} in the path is none: {why}");
            let violation = json!({"pointer": format!("/{what}"), "message": why});
            Failure::new(FailureKind::InvalidInput, why).with("violations", vec![violation])
        };
        slug::check_slug(&self.slug).map_err(|err| bad("slug", err))?;
        slug::check_version(&self.version).map_err(|err| bad("version", err))
    }
}

/// A tool of a bundle, whether or not it can be used.
#[derive(Clone, Debug)]
pub struct Member {
    /// A UUIDv7.
    pub id: Uuid,
    pub key: Key,
    /// What it is called by everybody else.
    pub name: String,
    pub title: String,
    pub description: String,
    pub tags: Vec<String>,
    /// `http`, `go`, `command` or `python`.
    pub kind: &'static str,
    pub enabled: bool,
    pub keeper: Keeper,
    /// Of its document.
    pub schema_version: String,
    pub inputs: Value,
    pub outputs: Option<Value>,
    /// How it runs, in the words of its own dialect.
    pub how: Value,
    pub created_at: SystemTime,
    pub modified_at: SystemTime,
    /// What it means, or why nothing can be made of it here.
    pub spec: Result<Arc<ToolSpec>, String>,
}

impl Bundle {
    /// Whether anything inside may be made, changed or called.
    pub fn is_open(&self) -> Result<(), Failure> {
        let closed = |why: &str, hint: &str| {
            let why = format!("the bundle `{}` is {why}", self.slug);
            Failure::new(FailureKind::Disabled, why)
                .with("bundleID", self.id.to_string())
                .hint(hint)
        };
        if self.deleted_at.is_some() {
            return Err(closed("deleted", "PUT it again to have it back"));
        }
        match self.enabled {
            true => Ok(()),
            false => Err(closed("disabled", "PATCH it with {\"isEnabled\": true}")),
        }
    }

    /// Whether more than the switch may be changed, of the bundle or of what is in it.
    pub fn may_change(&self) -> Result<(), Failure> {
        changeable(self.keeper, "bundle", &self.slug)
    }

    /// Whether the switch may be changed.
    pub fn may_switch(&self) -> Result<(), Failure> {
        switchable(self.keeper, "bundle", &self.slug)
    }
}

impl Member {
    pub fn may_change(&self) -> Result<(), Failure> {
        changeable(self.keeper, "tool", &self.key.slug)
    }

    /// Whether the switch may be changed.
    pub fn may_switch(&self) -> Result<(), Failure> {
        switchable(self.keeper, "tool", &self.key.slug)
    }
}

fn changeable(keeper: Keeper, what: &str, slug: &str) -> Result<(), Failure> {
    match keeper {
        Keeper::Given => Err(Failure::new(
            FailureKind::PermissionDenied,
            format!("the {what} `{slug}` is not kept by this API; only isEnabled can change"),
        )),
        other => switchable(other, what, slug),
    }
}

fn switchable(keeper: Keeper, what: &str, slug: &str) -> Result<(), Failure> {
    match keeper {
        Keeper::Store | Keeper::Given => Ok(()),
        Keeper::Newer => Err(Failure::new(
            FailureKind::Conflict,
            format!("the {what} `{slug}` was written by a newer glee, and is left as it is"),
        )
        .hint("update glee, or change it with the one that wrote it")),
    }
}
