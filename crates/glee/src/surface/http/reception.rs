//! What every request passes on its way in, and every answer on its way out. Not layers of the router: each of
//! those copies all that is below it for every request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::guard::Guard;
use super::pace::Paced;
use crate::surface::rest;

pub(super) struct Reception {
    guard: Arc<Guard>,
    /// What a body has to come.
    time: Duration,
    router: TowerToHyperService<Router>,
}

impl Reception {
    pub(super) fn new(guard: Guard, time: Duration, router: Router) -> Arc<Reception> {
        Arc::new(Reception {
            guard: Arc::new(guard),
            time,
            router: TowerToHyperService::new(router),
        })
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        unframed(self.admitted(request).await)
    }

    async fn admitted(&self, mut request: Request<Incoming>) -> Response<Body> {
        if let Err(refused) = self.guard.admit(&mut request) {
            return refused;
        }
        let (request, late) = Paced::request(request, self.time);
        let response = match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        // Whatever was made of a body that did not come, its sender is told that it did not.
        match late.is_so() {
            true => rest::too_slow(self.time),
            false => response,
        }
    }
}

/// No page may show these answers inside of itself, and nobody keeps them.
fn unframed(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
