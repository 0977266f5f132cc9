//! Reads request bodies: size limit, content type, JSON or YAML.

use apimachinery::{schema::Schema, status::Status};
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::protobuf;

/// The largest body taken, in bytes (upstream's 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;

const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// JSON; also without a content type.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf, of built-in kinds.
    Protobuf,
}

impl BodyKind {
    /// From the content type. Errors: 415.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        match media_type(headers).as_str() {
            "" | "*/*" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(Status::unsupported_media_type(&TYPES)),
        }
    }
}

/// The content type without parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads the whole body. Errors: 413 beyond [`MAX_BODY`], 400 where the client stopped sending.
pub(crate) async fn read_body(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.downcast_ref::<LengthLimitError>().is_some() => Err(Status::too_large(format!("limit is {MAX_BODY}"))),
        Err(e) => Err(Status::bad_request(format!("error reading the request body: {e}"))),
    }
}

/// Parses a body loosely (options); `schema` leads through its protobuf form.
pub(crate) fn to_value(kind: BodyKind, bytes: &[u8], schema: &Schema) -> Result<Value, String> {
    match kind {
        BodyKind::Json => serde_json::from_slice(bytes).map_err(|e| e.to_string()),
        BodyKind::Protobuf => {
            let unknown = protobuf::open(bytes).map_err(|e| e.to_string())?;
            protobuf::decode(schema, unknown.raw).map_err(|e| e.to_string())
        }
        BodyKind::Yaml => {
            let mut documents = serde_yaml_ng::Deserializer::from_slice(bytes);
            let first = documents.next().ok_or("EOF")?;
            serde::Deserialize::deserialize(first).map_err(|e: serde_yaml_ng::Error| e.to_string())
        }
    }
}
