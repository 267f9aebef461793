//! REST: what people and their programs see, decide and call, over HTTP. Answers are JSON, failures too.

mod answer;
mod approvals;
mod bundles;
mod operation;
mod page;
mod params;
mod reviews;
mod status;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;

use self::bundles::Desk;
use self::operation::Operation;
use self::page::Pages;
use crate::app::App;

/// Whoever gets here has passed the guard, which left the principal on the request.
pub fn router(app: Arc<App>) -> Router {
    let desk = Desk {
        app: app.clone(),
        pages: Arc::new(Pages::new()),
    };
    operations(&desk)
        .into_iter()
        .fold(Router::new(), |router, it| it.route(router))
        .merge(approvals::routes(app.clone()))
        .merge(reviews::routes().with_state(app))
        .layer(map_response(answer::unframed))
}

fn operations(desk: &Desk) -> Vec<Operation> {
    let mut all = bundles::operations(desk);
    all.extend(tools::operations(desk));
    all
}
