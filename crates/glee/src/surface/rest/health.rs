//! Whether the server lives, and whether it can do its work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::Refused;
use super::operation::Operation;
use crate::app::App;
use crate::store::tokens::Scope;

pub(super) fn operations(app: &Arc<App>) -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/healthz",
            "isAlive",
            "Whether the server lives",
            healthz,
            app.clone(),
        )
        .gives(200, "It does", "Done"),
        Operation::new(
            "GET",
            "/readyz",
            "isReady",
            "Whether calls can be made",
            readyz,
            app.clone(),
        )
        .gives(200, "They can", "Done")
        .fails(&[503]),
        Operation::new(
            "GET",
            "/metrics",
            "metrics",
            "Counts of calls, for Prometheus",
            metrics,
            app.clone(),
        )
        .scope(Scope::ReadRegistry)
        .gives_text("Since the start of the server", "text/plain"),
    ]
}

async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((kind, app.metrics()).into_response())
}

async fn healthz() -> Json<Value> {
    Json(json!({"ok": true}))
}

/// Who asks need not be anybody, so it says what to look at and not what is there.
async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    match app.unready() {
        None => (StatusCode::OK, Json(json!({"ok": true}))),
        Some(why) => {
            let error =
                json!({"code": "NOT_READY", "message": why, "details": {}, "retryable": true});
            let body = json!({"ok": false, "error": error});
            (StatusCode::SERVICE_UNAVAILABLE, Json(body))
        }
    }
}
