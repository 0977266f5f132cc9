//! Turns a panic below into a 500 and goes on serving.

use std::panic::AssertUnwindSafe;

use apimachinery::status::Status;
use axum::{extract::Request, middleware::Next, response::Response};
use futures::FutureExt;

use crate::negotiate::{Negotiated, status_response};

pub(super) async fn layer(request: Request, next: Next) -> Response {
    let line = format!("{} {}", request.method(), request.uri().path());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(request = line, "a handler panicked");
            let text = format!("This request caused apiserver to panic. Look in the logs for details. ({line})");
            status_response(Negotiated::PLAIN, &Status::internal(text))
        }
    }
}
