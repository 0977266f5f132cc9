//! An etcd-compatible store: openraft and RocksDB behind the etcd v3 gRPC API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(test)]
mod any_rows;
pub mod apply;
pub mod auth;
pub mod backup;
pub mod command;
pub mod config;
pub mod config_upkeep;
pub mod disk;
mod http;
pub mod lease;
pub mod metrics;
pub mod mvcc;
pub mod node;
mod raft;
pub mod refusal;
pub mod rpc;
mod server;
#[cfg(test)]
mod simulation;
pub mod snapshot_command;
pub mod state;
pub mod upkeep;
pub mod url;
pub mod watch;

pub use config::{CommandLine, Config};
pub use server::{Server, run};
