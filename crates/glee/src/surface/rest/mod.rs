//! REST: what people and their programs decide, over HTTP. Answers are JSON, failures too.

mod answer;
mod approvals;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;

use crate::app::App;

/// Whoever gets here has passed the guard, which left the principal on the request.
pub fn router(app: Arc<App>) -> Router {
    approvals::routes(app).layer(map_response(answer::unframed))
}
