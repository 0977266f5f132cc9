//! What every protobuf body is wrapped in: four magic bytes and `runtime.Unknown`, which names the kind.

use super::{Error, wire};

const MAGIC: &[u8] = b"k8s\0";

/// An object still encoded, with its type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown<'a> {
    /// e.g. `apps/v1`.
    pub(crate) api_version: &'a str,
    /// e.g. `Deployment`.
    pub(crate) kind: &'a str,
    /// The message.
    pub(crate) raw: &'a [u8],
}

/// Unwraps a body.
pub(crate) fn open(bytes: &[u8]) -> Result<Unknown<'_>, Error> {
    let message = bytes.strip_prefix(MAGIC).ok_or(Error::Prefix)?;
    let mut out = Unknown::default();
    for (number, value) in wire::fields(message)? {
        match number {
            1 => {
                for (number, value) in wire::fields(value.bytes("typeMeta")?)? {
                    match number {
                        1 => out.api_version = value.text("apiVersion")?,
                        2 => out.kind = value.text("kind")?,
                        _ => {}
                    }
                }
            }
            2 => out.raw = value.bytes("raw")?,
            _ => {}
        }
    }
    Ok(out)
}
