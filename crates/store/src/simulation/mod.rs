//! A cluster in one process, on one thread, in simulated time: what chance decides follows from a seed, so that the same seed
//! gives the same history, message by message.
//!
//! Real are the members ([`member`]): consensus, state, services, everything but what would leave the process. Simulated are
//! the network ([`network`], [`connection`]), the disks ([`disk`]), the clock (tokio's, paused) and openraft's dice
//! (`raft/runtime/`). [`faults`] lets go wrong what can; clients work meanwhile, and what they saw is held against what a
//! store may do ([`world`], with the checkers of the `tests` crate). `crates/store/tests/README.md` says how to run it.

#![allow(clippy::expect_used, clippy::panic)]

mod connection;
mod disk;
mod exchange;
mod faults;
mod member;
mod network;
mod runs;
mod tally;
mod world;
