//! `/tools/bundles`: bundles, and the tools in them.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use glee_core::bundle::{Bundle, Key, Member};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer::{Answer, Body, Refused};
use super::operation::Operation;
use super::page::Pages;
use super::params::{Kind, Param, Place, Query};
use crate::app::{App, Put};
use crate::dialect::bundle;
use crate::dialect::bundle::wire::{PutBundle, PutTool};
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;
use crate::surface::turnstile::Turnstile;

/// What the operations on bundles and tools share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) app: Arc<App>,
    pub(super) pages: Arc<Pages>,
    pub(super) calls: Turnstile,
    /// Archives that come in.
    pub(super) imports: Turnstile,
}

/// The only thing that a PATCH may say.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "its schema is all that is wanted of it")]
struct Switch {
    #[serde(rename = "isEnabled")]
    is_enabled: bool,
}

const LIST: &[Param] = &[
    Param {
        name: "bundleIDs",
        about: "Only these bundles",
        kind: Kind::Bundles,
    },
    Param {
        name: "includeDisabled",
        about: "Also bundles that are disabled or deleted",
        kind: Kind::Flag,
    },
    Param {
        name: "pageSize",
        about: "Bundles on a page; 256 are the most",
        kind: Kind::Size,
    },
    Param {
        name: "pageToken",
        about: "`nextPageToken` of the page before",
        kind: Kind::Text,
    },
];

const BUNDLE: &str = "/tools/bundles/{bundleID}";
const TOOL: &str = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}";
const CHANGES: &[u16] = &[400, 404, 409, 503, 507];

pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    let desk = || desk.clone();
    vec![
        Operation::new(
            "GET",
            "/tools/bundles",
            "listBundles",
            "List bundles",
            list,
            desk(),
        )
        .scope(Scope::ReadRegistry)
        .query(LIST)
        .gives(200, "A page of bundles", "Bundles")
        .fails(&[400]),
        Operation::new(
            "PUT",
            BUNDLE,
            "putBundle",
            "Make a bundle, or say anew what it is",
            put,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .body::<PutBundle>()
        .gives(200, "It was there, and is replaced", "Bundle")
        .gives(201, "It was made", "Bundle")
        .fails(&[400, 409, 429, 503, 507]),
        Operation::new(
            "PATCH",
            BUNDLE,
            "patchBundle",
            "Enable or disable a bundle",
            patch,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .body::<Switch>()
        .gives(200, "The bundle as it is now", "Bundle")
        .fails(CHANGES),
        Operation::new(
            "DELETE",
            BUNDLE,
            "deleteBundle",
            "Delete a bundle; for two days it can be had back by a PUT",
            delete,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .gives_nothing("It is deleted")
        .fails(CHANGES),
        Operation::new("GET", TOOL, "getTool", "A tool", get_tool, desk())
            .scope(Scope::ReadRegistry)
            .gives(200, "The tool", "Tool")
            .fails(&[400, 404, 409]),
        Operation::new(
            "PUT",
            TOOL,
            "putTool",
            "Make a tool; one that is there stays as it is",
            put_tool,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .body::<PutTool>()
        .gives(201, "It was made", "Tool")
        .fails(CHANGES)
        .fails(&[429]),
        Operation::new(
            "PATCH",
            TOOL,
            "patchTool",
            "Enable or disable a tool",
            patch_tool,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .body::<Switch>()
        .gives(200, "The tool as it is now", "Tool")
        .fails(CHANGES),
        Operation::new(
            "DELETE",
            TOOL,
            "deleteTool",
            "Delete a tool for good",
            delete_tool,
            desk(),
        )
        .scope(Scope::WriteRegistry)
        .gives_nothing("It is gone")
        .fails(CHANGES),
    ]
}

async fn list(State(desk): State<Desk>, query: Query) -> Answer {
    let query = query.check(LIST)?;
    let ids = ids(&query)?;
    let all = query.flag("includeDisabled")?;
    let size = query.size("pageSize")?;
    let filter = json!(["bundles", query.list("bundleIDs"), all]);
    let after = match query.text("pageToken") {
        Some(token) => desk
            .pages
            .open(&filter, token)?
            .as_str()
            .and_then(|it| it.parse().ok()),
        None => None,
    };
    let tools = desk.app.tools();
    let mut wanted = tools
        .bundles()
        .filter(|it| after.is_none_or(|after: Uuid| it.id > after))
        .filter(|it| ids.as_ref().is_none_or(|ids| ids.contains(&it.id)))
        .filter(|it| all || it.is_open().is_ok());
    let page: Vec<&Arc<Bundle>> = wanted.by_ref().take(size).collect();
    let mut out =
        json!({"bundles": page.iter().map(|it| bundle::render_bundle(it)).collect::<Vec<_>>()});
    if let (Some(last), Some(_)) = (page.last(), wanted.next()) {
        let token = desk.pages.seal(&filter, &last.id.to_string().into());
        out["nextPageToken"] = token.into();
    }
    Ok(Json(out))
}

/// The bundles that a query names; none that it names wrongly.
pub(super) fn ids(query: &Query) -> Result<Option<Vec<Uuid>>, Failure> {
    let named = query.items("bundleIDs");
    let ids: Result<Vec<Uuid>, Failure> = named.iter().map(|it| bundle_id(it)).collect();
    Ok(Some(ids?).filter(|it| !it.is_empty()))
}

pub(super) fn bundle_id(text: &str) -> Result<Uuid, Failure> {
    bundle::id(text).ok_or_else(|| {
        let why = "a bundleID is a UUIDv7, such as 018faf50-b7b6-7a01-9a05-a22a6e0af101";
        Failure::new(FailureKind::InvalidInput, why).with(
            "violations",
            json!([{"pointer": "/bundleID", "message": why}]),
        )
    })
}

pub(super) type ToolPlace = (String, String, String);

pub(super) fn key((bundle, slug, version): ToolPlace) -> Result<Key, Failure> {
    let key = Key {
        bundle: bundle_id(&bundle)?,
        slug,
        version,
    };
    key.check()?;
    Ok(key)
}

async fn put(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(id): Place<String>,
    Body(said): Body<PutBundle>,
) -> Result<Response, Refused> {
    let (bundle, done) = desk
        .change(by, move |app, by| app.put_bundle(bundle_id(&id)?, said, by))
        .await?;
    let status = match done {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    Ok((status, Json(bundle::render_bundle(&bundle))).into_response())
}

async fn patch(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(id): Place<String>,
    Body(said): Body<Map<String, Value>>,
) -> Answer {
    let change = move |app: &App, by: &Caller| {
        let id = bundle_id(&id)?;
        let enabled = switch(&said, || {
            let tools = app.tools();
            tools.bundle(id).map_or(Ok(()), |it| it.may_change())
        })?;
        app.switch_bundle(id, enabled, by)
    };
    let bundle = desk.change(by, change).await?;
    Ok(Json(bundle::render_bundle(&bundle)))
}

async fn delete(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(id): Place<String>,
) -> Result<StatusCode, Refused> {
    desk.change(by, move |app, by| app.delete_bundle(bundle_id(&id)?, by))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn get_tool(State(desk): State<Desk>, Place(place): Place<ToolPlace>) -> Answer {
    let member = desk.app.member(&key(place)?)?;
    Ok(Json(one(member, &desk.app).await))
}

async fn put_tool(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(place): Place<ToolPlace>,
    Body(said): Body<PutTool>,
) -> Result<Response, Refused> {
    let change = move |app: &App, by: &Caller| app.put_tool(&key(place)?, said, by);
    let member = desk.change(by, change).await?;
    let body = one(member, &desk.app).await;
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

async fn patch_tool(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(place): Place<ToolPlace>,
    Body(said): Body<Map<String, Value>>,
) -> Answer {
    let change = move |app: &App, by: &Caller| {
        let key = key(place)?;
        let enabled = switch(&said, || app.member(&key)?.may_change())?;
        app.switch_tool(&key, enabled, by)
    };
    let member = desk.change(by, change).await?;
    Ok(Json(one(member, &desk.app).await))
}

async fn delete_tool(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    Place(place): Place<ToolPlace>,
) -> Result<StatusCode, Refused> {
    desk.change(by, move |app, by| app.delete_tool(&key(place)?, by))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `{"isEnabled": …}` and nothing else. Whoever wants more is told first whether that could be.
fn switch(
    said: &Map<String, Value>,
    may_change: impl FnOnce() -> Result<(), Failure>,
) -> Result<bool, Failure> {
    match (said.get("isEnabled"), said.len()) {
        (Some(Value::Bool(enabled)), 1) => Ok(*enabled),
        _ => {
            may_change()?;
            let why = "a PATCH says {\"isEnabled\": true} or false, and nothing else";
            Err(Failure::new(FailureKind::InvalidInput, why))
        }
    }
}

/// Tools as they are told: why they cannot be called, if they cannot, and how often they were.
pub(super) async fn rendered(members: Vec<Arc<Member>>, app: &Arc<App>) -> Vec<Value> {
    let app = app.clone();
    let render = move || {
        let tools = app.tools();
        let used = app.usage(members.iter().map(|it| &**it));
        let render = |member: &Arc<Member>| {
            let unusable = tools.shows(member).err().map(|it| it.message);
            let mut out = bundle::render_member(member, unusable.as_deref());
            if let Some(count) = used.get(member.name.as_str()) {
                out["usage"] = json!({
                    "callCount": count.calls,
                    "failureCount": count.failures,
                    "lastCalledAt": count.last_called_at,
                    "averageMs": count.milliseconds / count.calls as f64,
                });
            }
            out
        };
        members.iter().map(render).collect()
    };
    // The journal is read for it.
    tokio::task::spawn_blocking(render)
        .await
        .unwrap_or_default()
}

async fn one(member: Arc<Member>, app: &Arc<App>) -> Value {
    rendered(vec![member], app).await.pop().unwrap_or_default()
}

impl Desk {
    /// It waits for other processes, and for the disk.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        by: Principal,
        change: impl FnOnce(&App, &Caller) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Refused> {
        let app = self.app.clone();
        let by = Caller { name: by.name };
        let done = tokio::task::spawn_blocking(move || change(&app, &by)).await;
        let done = done.map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))?;
        Ok(done?)
    }
}
