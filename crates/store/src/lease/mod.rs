//! Whose time is up: the leader's clockwork over the replicated leases.

pub mod expiry;
pub mod lessor;
pub mod renew;

pub use lessor::Lessor;
