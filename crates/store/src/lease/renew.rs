//! Keeping a lease alive, on the leader.

use crate::{
    command::{Command, LeaseCheckpoint, Remaining},
    lease::{Lessor, lessor::Time},
    node::{LeaseTime, Node},
    refusal::Refusal,
};

/// Starts a lease's time afresh; the granted seconds. Only on the member that counts.
pub async fn renew(node: &dyn Node, id: i64) -> Result<i64, Refusal> {
    let attempt = |lessor: &mut Lessor, now| {
        let checkpointed = lessor.checkpointed(id);
        lessor.renew(id, now).map(|ttl| (ttl, checkpointed))
    };
    let (ttl, checkpointed) = counted(node, attempt).await?;
    if checkpointed {
        // Else the next leader would begin with what the checkpoint left, and end the lease early.
        let leases = vec![Remaining { id, ttl: 0 }];
        node.propose(Command::LeaseCheckpoint(LeaseCheckpoint { leases })).await?;
    }
    Ok(ttl.as_secs() as i64)
}

/// The time of a lease. Only on the member that counts.
pub async fn time(node: &dyn Node, id: i64) -> Result<LeaseTime, Refusal> {
    let remaining = counted(node, |lessor: &mut Lessor, now| lessor.remaining(id, now)).await?;
    Ok(LeaseTime { granted: remaining.granted, remaining: remaining.left })
}

/// Asks the lessor for something of a lease; twice, before it is said that there is no such lease: another member may have
/// applied its grant, and told its client, before this one did, and one that was paused has not heard the keep-alives that
/// its successor has.
async fn counted<T>(node: &dyn Node, ask: impl Fn(&mut Lessor, Time) -> Option<T>) -> Result<T, Refusal> {
    if let Some(found) = leading(node, &ask)? {
        return Ok(found);
    }
    if !node.still_leads().await {
        return Err(Refusal::NotLeader);
    }
    leading(node, &ask)?.ok_or(Refusal::LeaseNotFound)
}

fn leading<T>(node: &dyn Node, ask: impl Fn(&mut Lessor, Time) -> Option<T>) -> Result<Option<T>, Refusal> {
    node.state().with_lessor(|lessor, now| if lessor.leading() { Ok(ask(lessor, now)) } else { Err(Refusal::NotLeader) })
}
