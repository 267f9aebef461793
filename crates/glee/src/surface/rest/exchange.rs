//! `/tools/bundles/export` and `/tools/bundles/import`: bundles as ZIP archives.

use axum::extract::{FromRequest, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use glee_core::outcome::{Failure, FailureKind};

use super::answer::{Answer, Refused, ZIP, Zip};
use super::bundles::{Desk, ids};
use super::operation::Operation;
use super::params::{Kind, Param, Query};
use crate::app::Run;
use crate::dialect::bundle::archive::MOST_BYTES;
use crate::store::tokens::Scope;
use crate::surface::exchange::{ON_CONFLICT, as_json, on_conflict};
use crate::surface::principal::Principal;

const EXPORT: &[Param] = &[Param {
    name: "bundleIDs",
    about: "Only these bundles; all that were made here unless given",
    kind: Kind::Bundles,
}];
const IMPORT: &[Param] = &[
    Param {
        name: "dryRun",
        about: "Tell what would be done, and do nothing",
        kind: Kind::Flag,
    },
    Param {
        name: "onConflict",
        about: "When an id or a slug is taken: import nothing, leave the bundle out, or give it a free one",
        kind: Kind::OneOf(ON_CONFLICT),
    },
];

pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    vec![
        Operation::new(
            "GET",
            "/tools/bundles/export",
            "exportBundles",
            "Bundles and their tools as a ZIP archive",
            export,
            desk.clone(),
        )
        .scope(Scope::ReadRegistry)
        .query(EXPORT)
        .gives_bytes("The archive", ZIP)
        .fails(&[400, 404, 409]),
        Operation::new(
            "POST",
            "/tools/bundles/import",
            "importBundles",
            "Make the bundles of an archive, all or none; their tools are disabled",
            import,
            desk.clone(),
        )
        .scope(Scope::WriteRegistry)
        .query(IMPORT)
        .takes_bytes(ZIP, MOST_BYTES)
        .gives(200, "What became of each bundle", "Imported")
        .fails(&[400, 409, 429, 503, 507]),
    ]
}

async fn export(State(desk): State<Desk>, query: Query) -> Result<Response, Refused> {
    let ids = ids(&query.check(EXPORT)?)?.unwrap_or_default();
    let app = desk.app.clone();
    let archive = tokio::task::spawn_blocking(move || app.export(&ids)).await;
    let archive = archive.map_err(|err| Failure::new(FailureKind::Internal, err.to_string()))??;
    let headers = [
        (header::CONTENT_TYPE, ZIP),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"bundles.zip\"",
        ),
    ];
    Ok((headers, archive).into_response())
}

async fn import(
    State(desk): State<Desk>,
    Extension(by): Extension<Principal>,
    query: Query,
    request: Request,
) -> Answer {
    // Held until the archive is gone, also when whoever sent it is gone before.
    let pass = desk.imports.enter(&by.name).ok_or_else(|| {
        let why = "too many archives come in already";
        Failure::new(FailureKind::RateLimited, why).retryable()
    })?;
    let query = query.check(IMPORT)?;
    let run = match query.flag("dryRun")? {
        true => Run::Dry,
        false => Run::Real,
    };
    let word = query.one_of("onConflict", ON_CONFLICT)?;
    let Zip(archive) = Zip::from_request(request, &()).await?;
    let import = move |app: &crate::app::App, by: &glee_core::port::Caller| {
        let _pass = pass;
        let on_conflict = on_conflict(word).ok_or_else(|| {
            Failure::new(FailureKind::Internal, format!("`{word}` has no meaning"))
        })?;
        app.import(&archive, on_conflict, run, by)
    };
    let arrivals = desk.change(by, import).await?;
    Ok(Json(as_json(&arrivals, run)))
}
