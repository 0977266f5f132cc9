//! The Kubernetes object model: objects, kinds, errors, selectors, quantities, names, schemas and patches.
//!
//! Everything here is a pure function of its arguments: no IO, no async runtime, no clock, no randomness. Names, error texts and
//! reason codes mirror `k8s.io/apimachinery`, because clients match on them.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod apply;
#[cfg(test)]
mod arbitrary;
pub mod cbor;
pub mod field;
pub mod go;
pub mod gvk;
pub mod jsonpath;
pub mod names;
pub mod object;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod raw;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;
pub mod versions;

pub use object::Object;
pub use quantity::Quantity;
pub use status::Status;
