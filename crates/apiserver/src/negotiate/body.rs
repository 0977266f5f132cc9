//! Reads request bodies: size limit, content type, and the loose reading of options.

use apimachinery::{cbor, schema::Schema, status::Status};
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::accept::types;
use crate::protobuf;

/// The largest body taken, in bytes (upstream's 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// JSON; also without a content type.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf, of built-in kinds.
    Protobuf,
    /// CBOR.
    Cbor,
}

impl BodyKind {
    /// From the content type; CBOR is taken where its feature is on. Errors: 415.
    pub(crate) fn of(headers: &HeaderMap, cbor: bool) -> Result<Self, Status> {
        match media_type(headers).as_str() {
            _ if !has_sound_parameters(headers) => Err(Status::unsupported_media_type(types(cbor))),
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            "application/cbor" if cbor => Ok(Self::Cbor),
            _ => Err(Status::unsupported_media_type(types(cbor))),
        }
    }
}

/// The content type without parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether what follows the media type is parameters with values, as Go wants it.
fn has_sound_parameters(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let parameters = value.split(';').skip(1).map(str::trim).filter(|parameter| !parameter.is_empty());
    parameters
        .map(|parameter| parameter.split_once('='))
        .all(|pair| pair.is_some_and(|(name, value)| !name.is_empty() && !value.is_empty()))
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
        BodyKind::Cbor => cbor::decode(bytes).map(|node| node.to_value()).map_err(|e| e.to_string()),
        BodyKind::Yaml => {
            let mut documents = serde_yaml_ng::Deserializer::from_slice(bytes);
            let first = documents.next().ok_or("EOF")?;
            serde::Deserialize::deserialize(first).map_err(|e: serde_yaml_ng::Error| e.to_string())
        }
    }
}
