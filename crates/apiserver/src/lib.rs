//! The Kubernetes API over HTTPS, backed by an etcd v3 store.
//!
//! One request runs through `pipeline` (tower layers), the router, a handler of `handlers`, admission, the generic flow in
//! `registry::store` with the resource's strategy, and `storage`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub(crate) mod admission;
pub(crate) mod aggregator;
pub(crate) mod authn;
pub(crate) mod authz;
pub(crate) mod bootstrap;
mod cbor;
mod config;
#[cfg(test)]
mod dice;
pub(crate) mod extensions;
pub(crate) mod handlers;
pub(crate) mod informer;
mod kubelet;
pub(crate) mod lazy;
pub(crate) mod lifecycle;
pub(crate) mod loopback;
pub(crate) mod negotiate;
pub(crate) mod openapi;
pub(crate) mod pipeline;
pub(crate) mod protobuf;
pub(crate) mod registry;
pub(crate) mod request;
mod run;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod storage;
mod stores;
mod trust;

pub use config::{Config, EndpointReconciler, EtcdOverride, PortRange, Replicas};
pub use run::run;

/// The Kubernetes version whose API this server speaks.
pub const VERSION: &str = "v1.36.2";
