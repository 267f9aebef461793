//! `/reviews`: the tools that agents made, and what people decide about them.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, Body, Refused};
use super::operation::Operation;
use super::params::Place;
use crate::app::App;
use crate::review::Ruling;
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;
use crate::surface::review;

pub(super) fn operations(app: &Arc<App>) -> Vec<Operation> {
    let app = || app.clone();
    vec![
        Operation::new(
            "GET",
            "/reviews",
            "listReviews",
            "List the tools that agents made",
            list,
            app(),
        )
        .scope(Scope::Approve)
        .gives(200, "The tools, and what people think of them", "Done"),
        Operation::new(
            "GET",
            "/reviews/{name}",
            "getReview",
            "Look at a tool that an agent made",
            look,
            app(),
        )
        .scope(Scope::Approve)
        .gives(
            200,
            "The tool, what it may do, and how its examples ran",
            "Done",
        )
        .fails(&[400, 404, 409, 503]),
        Operation::new(
            "POST",
            "/reviews/{name}/approve",
            "approveTool",
            "Let everybody call it, as it was seen",
            approve,
            app(),
        )
        .scope(Scope::Approve)
        .body::<Approve>()
        .gives(200, "It is approved", "Done")
        .fails(&[400, 404, 409, 503]),
        Operation::new(
            "POST",
            "/reviews/{name}/deny",
            "denyTool",
            "Let nobody call it",
            deny,
            app(),
        )
        .scope(Scope::Approve)
        .body::<Deny>()
        .gives(200, "It is denied", "Done")
        .fails(&[400, 404, 409, 503]),
        Operation::new(
            "POST",
            "/reviews/{name}/edit",
            "editTool",
            "Put another manifest in its place, which asks for less; it waits for review again. Also needs write_registry",
            edit,
            app(),
        )
        .scope(Scope::Approve)
        // A manifest says what runs, which is more than a yes or a no.
        .also(Scope::WriteRegistry)
        .body::<Edit>()
        .gives(200, "It is changed", "Done")
        .fails(&[400, 404, 409, 503]),
    ]
}

/// Another manifest for what was seen: it may ask for less, never for more.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    digest: String,
    manifest: String,
}

/// A decision is about what was seen: `digest` of what `GET /reviews/{name}` gave.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Approve {
    digest: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Deny {
    digest: String,
    reason: String,
}

async fn list(State(app): State<Arc<App>>) -> Answer {
    let reviews: Vec<Value> = app.made_by_agents().iter().map(review::waiting).collect();
    Ok(Json(json!({"ok": true, "reviews": reviews})))
}

async fn look(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Place(name): Place<String>,
) -> Answer {
    let look = app.look(&name, &Caller { name: by.name }).await?;
    Ok(Json(json!({"ok": true, "review": review::look(&look)})))
}

async fn approve(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Place(name): Place<String>,
    Body(said): Body<Approve>,
) -> Answer {
    decide(app, by, name, said.digest, Ruling::Approve).await
}

async fn deny(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Place(name): Place<String>,
    Body(said): Body<Deny>,
) -> Answer {
    let ruling = Ruling::Deny {
        reason: said.reason,
    };
    decide(app, by, name, said.digest, ruling).await
}

async fn edit(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Place(name): Place<String>,
    Body(said): Body<Edit>,
) -> Answer {
    let by = Caller { name: by.name };
    let edit = move || app.edit_as_seen(&name, &said.digest, &by, &said.manifest);
    tokio::task::spawn_blocking(edit)
        .await
        .map_err(|err| Refused(Failure::new(FailureKind::Internal, err.to_string())))??;
    Ok(Json(json!({"ok": true})))
}

async fn decide(
    app: Arc<App>,
    by: Principal,
    name: String,
    seen: String,
    ruling: Ruling,
) -> Answer {
    let by = Caller { name: by.name };
    // It waits for other processes, and for the disk.
    tokio::task::spawn_blocking(move || app.rule_on(&name, &seen, &by, ruling))
        .await
        .map_err(|err| Refused(Failure::new(FailureKind::Internal, err.to_string())))??;
    Ok(Json(json!({"ok": true})))
}
