//! The tools that agents made, and one of them under review, as JSON for programs.

use serde_json::{Map, Value, json};

use crate::review::{Body, Look, Waiting};

pub(super) fn waiting(it: &Waiting) -> Value {
    json!({
        "name": it.name,
        "description": it.description,
        "creator": it.creator,
        "created_at": it.created_at,
        "review": it.standing.name(),
    })
}

pub(super) fn look(look: &Look) -> Value {
    let files: Vec<Value> = look
        .files
        .iter()
        .map(|it| match &it.body {
            Body::Text(text) => json!({"name": it.name, "sha256": it.hash, "text": text}),
            Body::Bytes(count) => json!({"name": it.name, "sha256": it.hash, "bytes": count}),
            Body::Link(target) => json!({"name": it.name, "link": target}),
            Body::Unreadable => json!({"name": it.name, "unreadable": true}),
        })
        .collect();
    let authority = look.authority.iter();
    let authority: Map<String, Value> = authority
        .map(|it| (it.about.to_owned(), it.says.clone().into()))
        .collect();
    json!({
        "name": look.spec.name,
        "creator": look.creator,
        "client": look.client,
        "created_at": look.created_at,
        "review": look.standing.name(),
        "digest": look.digest,
        "authority": authority,
        "beyond_the_ceiling": look.excess,
        "changes": look.changes,
        "diff": look.diff,
        "manifest": look.manifest,
        "files": files,
        "examples": look.trials,
    })
}
