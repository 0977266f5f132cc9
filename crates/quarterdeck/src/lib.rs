//! The user's command: `up`, `status`, `down`, `pki`.
//!
//! `up` writes PKI and kubeconfigs, starts the separate binaries as processes on loopback, and watches over them. It knows
//! the other binaries by their flags only.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
mod cluster;
mod containerd;
mod down;
mod layout;
mod parts;
mod pki;
mod ports;
mod state;
mod status;
mod supervisor;
mod up;

pub use cli::{Cli, run};
