//! REST: what people and their programs see, decide and call, over HTTP. Answers are JSON, failures too.

mod answer;
mod approvals;
mod bundles;
mod exchange;
mod functions;
mod health;
mod invoke;
mod openapi;
mod operation;
mod page;
mod params;
mod results;
mod reviews;
mod status;
mod tools;

use std::sync::Arc;

use axum::Router;

use self::bundles::Desk;
use self::operation::Operation;
use self::page::Pages;
use crate::app::App;
use crate::surface::turnstile::Turnstile;

pub use answer::too_slow;
pub use openapi::document;

/// What is answered to whoever asks, without a token: it tells nothing of the project.
pub const OPEN: &[&str] = &["/healthz", "/readyz", "/openapi.json", "/docs"];

/// Calls at once: of all callers together, and of one.
const MOST_CALLS: usize = 512;
const MOST_CALLS_OF_ONE: usize = 128;
/// Archives that come in at once: each may be 33 MiB.
const MOST_IMPORTS: usize = 4;

/// Whoever gets here has passed the guard, which left the principal on the request.
pub fn router(app: &Arc<App>) -> Router {
    operations(app)
        .into_iter()
        .fold(openapi::router(app), |router, it| it.route(router))
        .fallback(answer::nowhere)
        .method_not_allowed_fallback(answer::not_so)
}

/// Everything that the API can do.
fn operations(app: &Arc<App>) -> Vec<Operation> {
    let desk = Desk {
        app: app.clone(),
        pages: Arc::new(Pages::new()),
        calls: Turnstile::new(MOST_CALLS, MOST_CALLS_OF_ONE),
        imports: Turnstile::new(MOST_IMPORTS, MOST_IMPORTS),
    };
    let mut all = bundles::operations(&desk);
    all.extend(exchange::operations(&desk));
    all.extend(tools::operations(&desk));
    all.extend(invoke::operations(&desk));
    all.extend(functions::operations(&desk));
    all.extend(results::operations(&desk));
    all.extend(approvals::operations(app.clone()));
    all.extend(reviews::operations(app));
    all.extend(health::operations(app));
    all
}
