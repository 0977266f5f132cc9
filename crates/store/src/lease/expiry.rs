//! Proposes to revoke leases whose time is up, and to checkpoint long ones, while this member leads.

use crate::{
    command::{Command, LeaseCheckpoint, LeaseRevoke, Remaining},
    node::Node,
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Leases revoked per round at most; etcd's limit of 1000 per second.
const REVOKED_PER_ROUND: usize = 500;
const ROUND: Duration = Duration::from_millis(500);
/// A revocation that did not get through is tried again after this time.
const RETRY: Duration = Duration::from_secs(3);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);
const CHECKPOINTED_PER_ROUND: usize = 1000;

/// Runs until shutdown.
pub async fn run(node: Arc<dyn Node>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
        revoke_expired(&node).await;
        checkpoint(&node).await;
    }
}

async fn revoke_expired(node: &Arc<dyn Node>) {
    let expired = node.state().with_lessor(|lessor, now| {
        let expired = lessor.expired(now, REVOKED_PER_ROUND);
        expired.iter().for_each(|id| lessor.defer(*id, now + RETRY));
        expired
    });
    let revoke = |id| node.propose(Command::LeaseRevoke(LeaseRevoke { id }));
    for outcome in futures::future::join_all(expired.into_iter().map(revoke)).await {
        if let Err(refusal) = outcome {
            tracing::warn!(%refusal, "revoke expired lease; will try again");
        }
    }
}

async fn checkpoint(node: &Arc<dyn Node>) {
    let left = node.state().with_lessor(|lessor, now| lessor.checkpoints(now, CHECKPOINT_INTERVAL, CHECKPOINTED_PER_ROUND));
    if left.is_empty() {
        return;
    }
    let leases = left.into_iter().map(|(id, ttl)| Remaining { id, ttl }).collect();
    if let Err(refusal) = node.propose(Command::LeaseCheckpoint(LeaseCheckpoint { leases })).await {
        tracing::warn!(%refusal, "checkpoint leases; will try again");
    }
}
