//! The etcd v3 services: check a request, propose it or read, fill the header.

mod auth;
pub mod check;
mod cluster;
mod convert;
mod count;
mod election;
mod gateway;
mod guard;
mod health;
mod identity;
pub mod kv;
pub mod layers;
mod learner;
pub mod lease;
mod lock;
mod maintenance;
mod methods;
mod passwords;
mod queue;
mod range_stream;
mod reflection;
mod rephrase;
mod router;
mod slow;
mod snapshot;
pub mod watch;

#[cfg(test)]
mod tests;

pub(crate) use count::Calls;
pub(crate) use router::{background, json, router};

use crate::{
    auth::Authenticator,
    disk,
    metrics::Metrics,
    mvcc::Failure,
    node::{Identity, Node},
    refusal::Refusal,
    state::State,
    upkeep::quota::{self, Space},
};
use etcd::etcdserverpb::ResponseHeader;
use std::{sync::Arc, time::Duration};
use tonic::Status;

/// What requests may ask for; defaults are etcd's.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations in a transaction (`--max-txn-ops`).
    pub txn_ops: usize,
    /// Bytes of a request (`--max-request-bytes`).
    pub request_bytes: usize,
    /// Shortest lease, in seconds: one and a half election timeouts, rounded up.
    pub min_lease_ttl: i64,
    /// How often an idle watcher is told how far it is (`--watch-progress-notify-interval`).
    pub progress_interval: Duration,
    /// A read that takes longer is logged (`--warning-apply-duration`).
    pub slow_apply: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (progress_interval, slow_apply) = (Duration::from_secs(600), Duration::from_millis(100));
        Limits { txn_ops: 128, request_bytes: 3 << 19, min_lease_ttl: 2, progress_interval, slow_apply }
    }
}

/// What every service works with.
#[derive(Clone)]
pub struct Context {
    /// The member.
    pub node: Arc<dyn Node>,
    /// What requests may ask for.
    pub limits: Limits,
    /// The room there is under the quota.
    pub space: Space,
    /// What is counted.
    pub metrics: Metrics,
    /// How it finds out who asks.
    pub auth: Arc<Authenticator>,
    places: passwords::Places,
}

impl Context {
    /// Without a quota, and counting for nobody.
    pub fn new(node: Arc<dyn Node>, limits: Limits, auth: Arc<Authenticator>) -> Self {
        let places = passwords::Places::default();
        Context { node, limits, space: Space::default(), metrics: Metrics::new(), auth, places }
    }

    /// Refuses what takes so many bytes where they do not fit, and raises the alarm.
    async fn admit(&self, bytes: u64) -> Result<(), Status> {
        let database = self.node.state().database();
        if self.space.admits(&*database, bytes).map_err(disk_status)? {
            return Ok(());
        }
        quota::raise(&*self.node).await.map_err(disk_status)?;
        Err(Refusal::NoSpace.into())
    }

    /// The header of an answer at `revision`.
    pub fn header(&self, revision: i64) -> Option<ResponseHeader> {
        let Identity { cluster, member } = self.node.identity();
        Some(ResponseHeader { cluster_id: cluster, member_id: member, revision, raft_term: self.node.term() })
    }
}

/// The answer to a failed request. A failing disk also stops the member, elsewhere.
fn status(failure: Failure) -> Status {
    match failure {
        Failure::Refused(refusal) => refusal.into(),
        Failure::Disk(error) => disk_status(error),
    }
}

fn disk_status(error: disk::Error) -> Status {
    tracing::error!(error = &error as &dyn std::error::Error, "read");
    Refusal::Stopped.into()
}

/// Runs a read of the state that may take long off the async threads.
async fn blocking<T: Send + 'static>(state: &State, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    state.database().offload().run(work).await.map_err(|_| Status::from(Refusal::Stopped))
}
