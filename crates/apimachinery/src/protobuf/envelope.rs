//! What an object in protobuf is wrapped in: four magic bytes and `runtime.Unknown`, which names the kind. Upstream:
//! `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`.

use super::{Error, wire};

const MAGIC: &[u8] = b"k8s\0";

/// The bytes in front of a frame that tell its length.
pub const FRAME_HEAD: usize = 4;

/// An object still encoded, with its type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// e.g. `apps/v1`.
    pub api_version: &'a str,
    /// e.g. `Deployment`.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
}

/// Whether the bytes are an object in protobuf, as far as their beginning tells.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Unwraps an object.
pub fn open(bytes: &[u8]) -> Result<Unknown<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::Nothing);
    }
    let message = bytes.strip_prefix(MAGIC).ok_or(Error::Prefix)?;
    if message.is_empty() {
        return Err(Error::Empty);
    }
    let mut out = Unknown::default();
    for field in wire::fields(message) {
        match field? {
            (1, value) => type_meta(&mut out, value.bytes("typeMeta")?)?,
            (2, value) => out.raw = value.bytes("raw")?,
            _ => {}
        }
    }
    Ok(out)
}

fn type_meta<'a>(out: &mut Unknown<'a>, raw: &'a [u8]) -> Result<(), Error> {
    for field in wire::fields(raw) {
        match field? {
            (1, value) => out.api_version = value.text("apiVersion")?,
            (2, value) => out.kind = value.text("kind")?,
            _ => {}
        }
    }
    Ok(())
}

/// Wraps a message.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    wire::put_bytes(&mut type_meta, 1, api_version.as_bytes());
    wire::put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 24);
    out.extend_from_slice(MAGIC);
    wire::put_bytes(&mut out, 1, &type_meta);
    wire::put_bytes(&mut out, 2, raw);
    // contentEncoding and contentType.
    wire::put_bytes(&mut out, 3, b"");
    wire::put_bytes(&mut out, 4, b"");
    out
}

/// One event of a watch, as a frame: the length in four bytes, then `meta.v1.WatchEvent` around a wrapped object.
pub fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 6);
    wire::put_bytes(&mut raw, 1, object);
    let mut out = Vec::with_capacity(raw.len() + kind.len() + 16);
    out.extend_from_slice(&[0; FRAME_HEAD]);
    wire::put_bytes(&mut out, 1, kind.as_bytes());
    wire::put_bytes(&mut out, 2, &raw);
    let length = u32::try_from(out.len() - FRAME_HEAD).unwrap_or(u32::MAX);
    out[..FRAME_HEAD].copy_from_slice(&length.to_be_bytes());
    out
}

/// Adds an encoded item to an encoded list: of every list, items are field 2, the last one.
pub fn add_item(list: &mut Vec<u8>, item: &[u8]) {
    wire::put_bytes(list, 2, item);
}
