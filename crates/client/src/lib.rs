//! What every spoke needs beyond the `kube` crate.
//!
//! | module | for |
//! |---|---|
//! | [`connect`] | a [`kube::Client`] from a kubeconfig whose files may change under it, or for a token |
//! | [`informer`] | shared, indexed caches fed by list and watch |
//! | [`queue`] | the rate-limited work queue, and [`queue::work`] that drains it |
//! | [`expectations`] | what a controller did but does not see in its cache yet |
//! | [`leader`] | leader election on a Lease |
//! | [`events`] | the event recorder with upstream's aggregation and spam filter |
//! | [`serving`] | health for everybody, metrics for those the API server lets see them |
//! | [`retry`] | read, change, write again on a conflict |
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod connect;
pub mod events;
pub mod expectations;
pub mod informer;
mod key;
pub mod leader;
pub mod queue;
pub mod retry;
pub mod serving;

pub use key::Key;
