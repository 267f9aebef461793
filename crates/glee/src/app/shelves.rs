//! Which tool stands in which bundle: those of the store in theirs, and all others in bundles that come with
//! the program or with the project.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use glee_core::bundle::{Bundle, Keeper, Key, Member};
use glee_core::catalog::Snapshot;
use glee_core::model::{Exec, Origin, ToolSpec};
use glee_core::slug;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::builtin;
use crate::dialect::bundle::SCHEMA_VERSION;
use crate::store::bundles::{Loaded, Switches};

/// The bundle of a tool that no document of the store tells of: its slug, and what it is.
fn given(spec: &ToolSpec) -> (&'static str, &'static str) {
    let comes_with_glee = |it: &&builtin::Builtin| it.name == spec.name;
    match spec.origin {
        Origin::BuiltIn => match builtin::TABLE.iter().find(comes_with_glee) {
            Some(tool) => (tool.bundle, builtin::about(tool.bundle)),
            None => ("program", "Functions of this program"),
        },
        Origin::User | Origin::Agent { .. } => ("project", "Tools of this project, in .glee/tools"),
    }
}

/// Whether a bundle that is not of the store may have this slug.
pub(super) fn is_given(slug: &str) -> bool {
    ["program", "project"].contains(&slug) || builtin::TABLE.iter().any(|it| it.bundle == slug)
}

/// Puts every tool of the snapshot, and those of the store, where it belongs.
pub(super) fn place(snapshot: &mut Snapshot, loaded: Loaded) {
    let mut bundles: BTreeMap<&str, &str> = BTreeMap::new();
    let mut taken = HashSet::new();
    let specs: Vec<Arc<ToolSpec>> = snapshot.tools().cloned().collect();
    for spec in specs {
        let (bundle, about) = given(&spec);
        bundles.insert(bundle, about);
        let key = key(&spec, bundle, &mut taken);
        snapshot.insert_member(Arc::new(member(spec, key, &loaded.switches)));
    }
    for (slug, about) in bundles {
        let id = id("bundle", slug);
        snapshot.insert_bundle(Bundle {
            id,
            slug: slug.to_owned(),
            title: slug.to_owned(),
            description: about.to_owned(),
            enabled: loaded.switches.has_bundle(id),
            keeper: Keeper::Given,
            created_at: SystemTime::UNIX_EPOCH,
            modified_at: SystemTime::UNIX_EPOCH,
            deleted_at: None,
        });
    }
    for bundle in loaded.bundles {
        snapshot.insert_bundle(bundle);
    }
    for member in loaded.members {
        snapshot.insert_member(member);
    }
    for (file, why) in loaded.strays {
        snapshot.insert_stray(file, why);
    }
}

/// Names that differ only in what a slug cannot say get numbers.
fn key(spec: &ToolSpec, bundle: &str, taken: &mut HashSet<Key>) -> Key {
    let slug = slug::of_name(&spec.name);
    let mut key = Key {
        bundle: id("bundle", bundle),
        slug: slug.clone(),
        version: spec.version.clone(),
    };
    let mut count = 2;
    while !taken.insert(key.clone()) {
        let number = format!("-{count}");
        let kept: String = slug.chars().take(slug::MOST - number.len()).collect();
        key.slug = kept + &number;
        count += 1;
    }
    key
}

fn member(spec: Arc<ToolSpec>, key: Key, switches: &Switches) -> Member {
    let changed = spec.source.metadata().and_then(|it| it.modified());
    let modified_at = changed.unwrap_or(SystemTime::UNIX_EPOCH);
    Member {
        id: id("tool", &spec.name),
        name: spec.name.clone(),
        title: spec.title.clone().unwrap_or_default(),
        description: spec.description.clone(),
        tags: spec.tags.clone(),
        kind: match &spec.exec {
            Exec::Native(_) => "go",
            other => other.kind(),
        },
        enabled: switches.has_tool(&key),
        keeper: Keeper::Given,
        schema_version: SCHEMA_VERSION.to_string(),
        inputs: spec.inputs.source().clone(),
        outputs: spec.outputs.schema.as_ref().map(|it| it.source().clone()),
        how: match &spec.exec {
            Exec::Native(_) => json!({"goFunc": spec.name}),
            _ => Value::Object(Default::default()),
        },
        created_at: modified_at,
        modified_at,
        key,
        spec: Ok(spec),
    }
}

/// A UUIDv7 that is the same in every run: of the beginning of time, with a hash for what is random.
pub(super) fn id(what: &str, name: &str) -> Uuid {
    let hash = Sha256::digest(format!("glee {what} {name}"));
    let mut random = [0; 10];
    random.copy_from_slice(&hash[..10]);
    uuid::Builder::from_unix_timestamp_millis(0, &random).into_uuid()
}
