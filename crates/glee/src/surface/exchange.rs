//! What became of the bundles of an archive, as every surface tells it.

use serde_json::{Value, json};

use crate::app::{Arrival, OnConflict, Run};

/// What can be done with a bundle whose id or slug is taken; the first one unless something else is said.
pub(super) const ON_CONFLICT: &[&str] = &["fail", "skip", "rename"];

pub(super) fn on_conflict(word: &str) -> Option<OnConflict> {
    match word {
        "fail" => Some(OnConflict::Fail),
        "skip" => Some(OnConflict::Skip),
        "rename" => Some(OnConflict::Rename),
        _ => None,
    }
}

pub(super) fn as_json(arrivals: &[Arrival], run: Run) -> Value {
    let one = |it: &Arrival| {
        let tools: Vec<Value> = it
            .tools
            .iter()
            .map(|(slug, version)| json!({"slug": slug, "version": version}))
            .collect();
        let mut out =
            json!({"from": {"bundleID": it.was.0.to_string(), "slug": it.was.1}, "tools": tools});
        match &it.now {
            Ok((id, slug)) => {
                out["bundleID"] = id.to_string().into();
                out["slug"] = slug.as_str().into();
            }
            Err(why) => out["skipped"] = why.as_str().into(),
        }
        out
    };
    json!({"dryRun": run == Run::Dry, "bundles": arrivals.iter().map(one).collect::<Vec<_>>()})
}
