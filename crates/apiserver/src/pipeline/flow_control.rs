//! At most so many requests at a time, reading and writing counted apart.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use tokio::sync::Semaphore;

use crate::{
    loopback::InProcess,
    request::{RequestInfo, UserInfo},
    server::Server,
};

/// How much the server takes on.
pub(crate) struct Limits {
    /// `--max-requests-inflight`; `None` = no limit.
    pub(crate) reading: Option<Semaphore>,
    /// `--max-mutating-requests-inflight`.
    pub(crate) writing: Option<Semaphore>,
    /// Upper bound of any request that does not run long.
    pub(crate) timeout: Duration,
}

impl Limits {
    /// From the flags; 0 means no limit.
    pub(crate) fn new(reading: usize, writing: usize, timeout: Duration) -> Self {
        let permits = |n: usize| (n > 0).then(|| Semaphore::new(n));
        Self { reading: permits(reading), writing: permits(writing), timeout }
    }
}

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let info = request.extensions().get::<RequestInfo>();
    let reads = info.is_some_and(|i| matches!(i.verb, "get" | "list" | "watch"));
    let exempt = info.is_some_and(RequestInfo::is_long_running)
        || request.extensions().get::<InProcess>().is_some()
        || request.extensions().get::<UserInfo>().is_some_and(|u| u.in_group("system:masters"));
    let limit = if reads { &server.limits.reading } else { &server.limits.writing };
    let Some(limit) = limit.as_ref().filter(|_| !exempt) else { return next.run(request).await };
    match limit.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => too_many(),
    }
}

fn too_many() -> Response {
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
