//! Gives every request an id, the client's own if it sent one, and returns it.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderName, HeaderValue};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longer ids are cut.
const MAX: usize = 64;

pub(super) async fn layer(request: Request, next: Next) -> Response {
    let sent = request.headers().get(AUDIT_ID).and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty());
    let id = match sent {
        Some(own) => own.chars().take(MAX).collect(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(AUDIT_ID, value);
    }
    response
}
