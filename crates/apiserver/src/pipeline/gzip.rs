//! Compresses large answers for clients that take gzip.

use std::io::Write as _;

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};
use http_body::Body as _;
use http_body_util::BodyExt;

/// Smaller answers are not worth it (upstream's 128 KiB).
const THRESHOLD: u64 = 128 * 1024;

pub(super) async fn layer(request: Request, next: Next) -> Response {
    let wanted = accepts(request.headers());
    let response = next.run(request).await;
    // Streams have no exact size and are left alone.
    let large = response.body().size_hint().exact().is_some_and(|size| size > THRESHOLD);
    if wanted && large && !response.headers().contains_key(header::CONTENT_ENCODING) { compress(response).await } else { response }
}

fn accepts(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).any(|v| v.split(';').next().is_some_and(|name| name.trim() == "gzip"))
}

async fn compress(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else { return Response::from_parts(parts, Body::empty()) };
    let plain = collected.to_bytes();
    let zipped = tokio::task::spawn_blocking({
        let plain = plain.clone();
        move || {
            let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
            encoder.write_all(&plain).and_then(|()| encoder.finish())
        }
    });
    let Ok(Ok(zipped)) = zipped.await else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, Body::from(zipped))
}
