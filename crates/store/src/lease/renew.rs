//! Keeping a lease alive, on the leader.

use crate::{
    command::{Command, LeaseCheckpoint, Remaining},
    node::{LeaseTime, Node},
    refusal::Refusal,
};

/// Starts a lease's time afresh; the granted seconds. Only on the member that counts.
pub async fn renew(node: &dyn Node, id: i64) -> Result<i64, Refusal> {
    let (renewed, checkpointed) = node.state().with_lessor(|lessor, now| {
        if !lessor.leading() {
            return Err(Refusal::NotLeader);
        }
        let checkpointed = lessor.checkpointed(id);
        Ok((lessor.renew(id, now), checkpointed))
    })?;
    let ttl = renewed.ok_or(Refusal::LeaseNotFound)?;
    if checkpointed {
        // Else the next leader would begin with what the checkpoint left, and end the lease early.
        let leases = vec![Remaining { id, ttl: 0 }];
        node.propose(Command::LeaseCheckpoint(LeaseCheckpoint { leases })).await?;
    }
    Ok(ttl.as_secs() as i64)
}

/// The time of a lease. Only on the member that counts.
pub fn time(node: &dyn Node, id: i64) -> Result<LeaseTime, Refusal> {
    node.state().with_lessor(|lessor, now| {
        if !lessor.leading() {
            return Err(Refusal::NotLeader);
        }
        let remaining = lessor.remaining(id, now).ok_or(Refusal::LeaseNotFound)?;
        Ok(LeaseTime { granted: remaining.granted, remaining: remaining.left })
    })
}
