//! The Kubernetes API over HTTPS, backed by an etcd v3 store.
//!
//! One request runs through `pipeline` (tower layers), the router, a handler of `handlers`, admission, the generic flow in
//! `registry::store` with the resource's strategy, and `storage`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub(crate) mod admission;
pub(crate) mod authn;
pub(crate) mod authz;
pub(crate) mod loopback;
pub(crate) mod negotiate;
pub(crate) mod openapi;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod storage;
