//! An etcd-compatible store: openraft and RocksDB behind the etcd v3 gRPC API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod apply;
pub mod command;
pub mod compactor;
pub mod disk;
pub mod lease;
pub mod mvcc;
pub mod node;
pub mod refusal;
pub mod rpc;
pub mod state;
pub mod watch;
