//! The harness: clusters of real processes and of real containers, real clients to drive them, broken wires between them, the
//! history of what clients saw, what the programs that measure share, and waiting with a deadline.
//!
//! Needs the binaries (`make build`) and clients (`make tools`); `make test` brings both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
pub mod api_traffic;
mod background;
mod balancer;
pub mod bench;
pub mod chain;
mod cluster;
mod command;
mod compose;
pub mod golden;
pub mod history;
mod part;
pub mod ports;
mod server;
pub mod traffic;
mod wait;
pub mod wires;

pub use admin::Admin;
pub use background::Background;
pub use balancer::Balancer;
pub use cluster::Cluster;
pub use command::{Output, alive, binary, containers_are_possible, has, on_its_own, run, run_with_input};
pub use compose::Compose;
pub use part::Part;
pub use server::{Maker, Server};
pub use wait::{eventually, within};
