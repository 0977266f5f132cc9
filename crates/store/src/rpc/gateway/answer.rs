//! Answers of gRPC as JSON: one object, or one a line where there may be more.

use std::convert::Infallible;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use prost_reflect::MessageDescriptor;
use serde_json::json;
use tonic::{Code, Status};

use super::{http_code, transcode};

/// A failure: its code, its text, no details (grpc-gateway v2).
pub(super) fn failure(status: &Status) -> Response {
    let code = StatusCode::from_u16(http_code(status.code())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(header::CONTENT_TYPE, "application/json")], described(status).to_string()).into_response()
}

fn described(status: &Status) -> serde_json::Value {
    json!({ "code": status.code() as i32, "message": status.message(), "details": [] })
}

fn broken(error: &transcode::Error) -> Status {
    Status::internal(error.to_string())
}

/// How a call ended, if these headers say so.
fn ended(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let status = Status::from_header_map(headers)?;
    Some(if status.code() == Code::Ok { Ok(()) } else { Err(status) })
}

/// The answer to a call with one.
pub(super) async fn unary(kind: &MessageDescriptor, response: Response, largest: usize) -> Result<Response, Status> {
    let (parts, body) = response.into_parts();
    ended(&parts.headers).unwrap_or(Ok(()))?;
    let collected = http_body_util::Limited::new(body, largest).collect().await;
    let collected = collected.map_err(|error| Status::unavailable(error.to_string()))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    ended(&trailers).unwrap_or(Ok(()))?;
    let mut buffer = BytesMut::from(&collected.to_bytes()[..]);
    let message = transcode::unframe(&mut buffer).map_err(|error| broken(&error))?.unwrap_or_default();
    let text = transcode::json(kind, message).map_err(|error| broken(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// The answer to a call with several: a line for each, in a `result`, and a line with an `error` at a bad end.
pub(super) fn stream(kind: MessageDescriptor, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    if let Some(Err(status)) = ended(&parts.headers) {
        let code = StatusCode::from_u16(http_code(status.code())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (code, [(header::CONTENT_TYPE, "application/json")], error_line(&status)).into_response();
    }
    let lines = Lines { kind, body, buffer: BytesMut::new(), ended: false };
    let lines = stream::unfold(lines, |mut lines| async move { Some((Ok::<_, Infallible>(lines.next().await?), lines)) });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}

fn error_line(status: &Status) -> String {
    format!("{}\n", json!({ "error": described(status) }))
}

struct Lines {
    kind: MessageDescriptor,
    body: Body,
    buffer: BytesMut,
    ended: bool,
}

impl Lines {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            match self.message() {
                Ok(Some(line)) => return Some(line),
                Ok(None) => {}
                Err(error) => return Some(self.end(&broken(&error))),
            }
            match self.body.frame().await {
                None => self.ended = true,
                Some(Err(error)) => return Some(self.end(&Status::unavailable(error.to_string()))),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    } else if let Some(Err(status)) = frame.trailers_ref().and_then(ended) {
                        return Some(self.end(&status));
                    }
                }
            }
        }
        None
    }

    fn message(&mut self) -> Result<Option<Bytes>, transcode::Error> {
        let Some(message) = transcode::unframe(&mut self.buffer)? else { return Ok(None) };
        let text = transcode::json(&self.kind, message)?;
        Ok(Some([br#"{"result":"#, &text[..], b"}\n"].concat().into()))
    }

    fn end(&mut self, status: &Status) -> Bytes {
        self.ended = true;
        error_line(status).into()
    }
}
