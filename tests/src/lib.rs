//! The harness: a cluster of real processes, real clients to drive it, and waiting with a deadline.
//!
//! Needs the binaries (`make build`) and clients (`make tools`); `make test` brings both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;
mod command;
mod wait;

pub use cluster::Cluster;
pub use command::{Output, binary, has, run, run_with_input};
pub use wait::{eventually, within};
