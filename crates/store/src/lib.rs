//! An etcd-compatible store: openraft and RocksDB behind the etcd v3 gRPC API.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(test)]
mod any_rows;
pub mod apply;
pub mod auth;
pub mod backup;
pub mod command;
pub mod config;
pub mod disk;
mod http;
mod http_access;
pub mod lease;
mod listening;
pub mod metrics;
pub mod mvcc;
pub mod node;
mod raft;
pub mod refusal;
pub mod rpc;
mod security;
mod server;
#[cfg(test)]
mod simulation;
pub mod snapshot_command;
pub mod state;
pub mod upkeep;
pub mod url;
pub mod watch;

pub use config::Config;
pub use server::{Server, run};
