//! `--cors-allowed-origins`: lets browsers of these origins call.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use crate::server::Server;

const GRANTS: [(HeaderName, &str); 5] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
    (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    (header::VARY, "Origin"),
];

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let origin =
        request.headers().get(header::ORIGIN).filter(|o| o.to_str().is_ok_and(|o| server.cors.iter().any(|r| r.is_match(o)))).cloned();
    let Some(origin) = origin else { return next.run(request).await };
    let mut response = if request.method() == Method::OPTIONS {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in GRANTS {
        headers.append(name, HeaderValue::from_static(value));
    }
    response
}
