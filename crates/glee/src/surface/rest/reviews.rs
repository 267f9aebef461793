//! `/reviews`: the tools that agents made, and what people decide about them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, Body, Refused};
use crate::app::App;
use crate::review::Ruling;
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;
use crate::surface::review;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/reviews", get(list))
        .route("/reviews/{name}", get(look))
        .route("/reviews/{name}/approve", post(approve))
        .route("/reviews/{name}/deny", post(deny))
}

/// A decision is about what was seen: `digest` of what `GET /reviews/{name}` gave.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deny {
    digest: String,
    reason: String,
}

async fn list(State(app): State<Arc<App>>, Extension(by): Extension<Principal>) -> Answer {
    by.need(Scope::Approve)?;
    let reviews: Vec<Value> = app.made_by_agents().iter().map(review::waiting).collect();
    Ok(Json(json!({"ok": true, "reviews": reviews})))
}

async fn look(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Path(name): Path<String>,
) -> Answer {
    by.need(Scope::Approve)?;
    let look = app.look(&name, &Caller { name: by.name }).await?;
    Ok(Json(json!({"ok": true, "review": review::look(&look)})))
}

async fn approve(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Path(name): Path<String>,
    Body(said): Body<Approve>,
) -> Answer {
    decide(app, by, name, said.digest, Ruling::Approve).await
}

async fn deny(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Principal>,
    Path(name): Path<String>,
    Body(said): Body<Deny>,
) -> Answer {
    let ruling = Ruling::Deny {
        reason: said.reason,
    };
    decide(app, by, name, said.digest, ruling).await
}

async fn decide(
    app: Arc<App>,
    by: Principal,
    name: String,
    seen: String,
    ruling: Ruling,
) -> Answer {
    by.need(Scope::Approve)?;
    let by = Caller { name: by.name };
    // It waits for other processes, and for the disk.
    tokio::task::spawn_blocking(move || app.rule_on(&name, &seen, &by, ruling))
        .await
        .map_err(|err| Refused(Failure::new(FailureKind::Internal, err.to_string())))??;
    Ok(Json(json!({"ok": true})))
}
