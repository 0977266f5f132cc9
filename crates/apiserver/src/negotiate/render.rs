//! Turns values, cached bytes and statuses into HTTP answers.

use apimachinery::{Object, status::Status};
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{Format, Negotiated, yaml};
use crate::{cbor, protobuf};

impl Negotiated {
    /// JSON without a form: what errors and non-resource answers use by default.
    pub(crate) const PLAIN: Self = Self { format: Format::Json, form: super::Form::Object, pretty: false };

    fn content_type(self) -> HeaderValue {
        match self.format {
            Format::Json => HeaderValue::from_static("application/json"),
            Format::Yaml => HeaderValue::from_static("application/yaml"),
            Format::Protobuf => HeaderValue::from_static("application/vnd.kubernetes.protobuf"),
            Format::Cbor => HeaderValue::from_static("application/cbor"),
        }
    }

    /// Encodes a value. Errors: what has no protobuf form.
    fn encode(self, value: &Value) -> Result<Vec<u8>, Status> {
        Ok(match self.format {
            Format::Protobuf => protobuf::encode(value)?,
            Format::Cbor => cbor::encode(value),
            Format::Yaml => yaml::to_string(value).into_bytes(),
            // Writing a JSON value into memory cannot fail.
            Format::Json if self.pretty => serde_json::to_vec_pretty(value).unwrap_or_default(),
            Format::Json => json_line(value),
        })
    }

    /// Whether cached JSON may be sent as it is.
    pub(crate) fn takes_bytes(self) -> bool {
        self.format == Format::Json && !self.pretty
    }
}

fn json_line(value: &Value) -> Vec<u8> {
    let mut out = serde_json::to_vec(value).unwrap_or_default();
    out.push(b'\n');
    out
}

/// An answer of one value; 406 where it cannot be told in the negotiated format.
pub(crate) fn value_response(code: StatusCode, negotiated: Negotiated, value: &Value) -> Response<Body> {
    match negotiated.encode(value) {
        Ok(bytes) => bytes_response(code, negotiated, bytes.into()),
        Err(status) => status_response(negotiated, &status),
    }
}

/// An answer of encoded bytes.
pub(crate) fn bytes_response(code: StatusCode, negotiated: Negotiated, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, negotiated.content_type());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An error answer, with Retry-After where the status has one.
pub(crate) fn status_response(negotiated: Negotiated, status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let value = serde_json::to_value(status).unwrap_or(Value::Null);
    let mut response = match negotiated.encode(&value) {
        Ok(bytes) => bytes_response(code, negotiated, bytes.into()),
        Err(_) => bytes_response(code, Negotiated::PLAIN, json_line(&value).into()),
    };
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The metadata of an object as `meta.k8s.io PartialObjectMetadata`.
pub(crate) fn partial(object: &Object, version: &str) -> Value {
    let metadata = object.0.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}
