//! Compresses large answers for clients that take gzip.

use std::io::Write as _;

use apimachinery::status::Status;
use axum::{BoxError, body::Body, extract::Request, middleware::Next, response::Response};
use flate2::{Compression, write::GzEncoder};
use futures::TryStreamExt as _;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body as _;

use crate::negotiate::{Negotiated, status_response};

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
    let zipped = match zip(body).await {
        Ok(zipped) => zipped,
        Err(error) => return status_response(Negotiated::PLAIN, &Status::internal(error)),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, Body::from(zipped))
}

/// Frame by frame: what is strung together while it is sent is never whole but compressed.
async fn zip(body: Body) -> Result<Vec<u8>, BoxError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut frames = body.into_data_stream();
    while let Some(frame) = frames.try_next().await? {
        // Threads that answer others must not compress.
        let written = tokio::task::spawn_blocking(move || encoder.write_all(&frame).map(|()| encoder));
        encoder = written.await??;
    }
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use bytes::Bytes;
    use flate2::read::GzDecoder;
    use futures::stream;

    use super::*;

    fn answer(frames: Vec<Result<Bytes, &'static str>>) -> Response {
        let mut answer = Response::new(Body::from_stream(stream::iter(frames)));
        answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("6"));
        answer
    }

    #[tokio::test]
    async fn frames_are_compressed_into_one_answer() {
        let zipped = compress(answer(vec![Ok(Bytes::from_static(b"abc")), Ok(Bytes::from_static(b"def"))])).await;
        assert_eq!(
            (zipped.headers()[header::CONTENT_ENCODING].as_bytes(), zipped.headers().get(header::CONTENT_LENGTH)),
            (&b"gzip"[..], None)
        );
        let bytes = axum::body::to_bytes(zipped.into_body(), 1024).await.unwrap();
        let mut plain = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, "abcdef");
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_no_empty_answer() {
        assert_eq!(compress(answer(vec![Ok(Bytes::from_static(b"abc")), Err("broken")])).await.status(), 500);
    }
}
