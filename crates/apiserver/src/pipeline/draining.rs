//! Sends clients elsewhere while the server stops. Upstream: `WithRetryAfter` and `WithWaitGroup`.

use std::sync::Arc;

use apimachinery::status::Status;
use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderValue, StatusCode, Version, header};

use crate::{
    loopback::InProcess,
    negotiate::{Negotiated, status_response},
    request::RequestInfo,
    server::Server,
};

/// Served to the end.
const EXEMPT: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let http1 = request.version() < Version::HTTP_2;
    let long = request.extensions().get::<RequestInfo>().is_some_and(RequestInfo::is_long_running);
    let exempt = request.extensions().get::<InProcess>().is_some() || EXEMPT.iter().any(|path| request.uri().path().starts_with(path));
    let lifecycle = &server.lifecycle;
    // Counted before it is decided, so that nobody slips in behind the count that ends the server.
    let running = (!long && !exempt).then(|| lifecycle.requests.token());
    let refused = match lifecycle.closing.is_cancelled() && !exempt {
        true if lifecycle.retry_after => Some(come_again()),
        true if !long => Some(go_elsewhere()),
        _ => None,
    };
    let mut response = match refused {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    drop(running);
    if lifecycle.closing.is_cancelled() && http1 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// While the listener is still open: a connection made anew meets another server, or this one's successor.
fn come_again() -> Response {
    let mut response = Response::new(Body::from("The apiserver is shutting down, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// On a connection that is about to close.
fn go_elsewhere() -> Response {
    let mut response = status_response(Negotiated::PLAIN, &Status::service_unavailable("apiserver is shutting down"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
