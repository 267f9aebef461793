//! REST: what people and their programs decide, over HTTP. Answers are JSON, failures too.

mod answer;
mod approvals;
mod functions;
mod reviews;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;

use crate::app::App;

/// Whoever gets here has passed the guard, which left the principal on the request.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .merge(approvals::routes(app.clone()))
        .merge(reviews::routes().with_state(app.clone()))
        .merge(functions::routes(app))
        .layer(map_response(answer::unframed))
}
