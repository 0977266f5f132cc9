//! What the leader does for the membership by itself: ends what an earlier leader left half done, and gives members
//! that were added their vote once they have caught up.

use std::time::Duration;

use openraft::{ChangeMembers, async_runtime::watch::WatchReceiver};
use tokio::time::sleep;

use super::super::member::RaftNode;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// A member this many entries behind has caught up.
const CLOSE: u64 = 1000;

/// Runs until the member stops.
pub(crate) async fn tend(node: RaftNode) {
    while !node.stopped() {
        sleep(LOOK).await;
        node.peers().know(node.members());
        let Some(orders) = due(&node) else { continue };
        let Ok(_turn) = node.inner.reconfiguring.try_lock() else { continue };
        if let Err(denied) = node.change_membership(orders).await {
            tracing::warn!(?denied, "tend the membership; will try again");
        }
    }
}

fn due(node: &RaftNode) -> Option<ChangeMembers<u64, super::Member>> {
    let metrics = node.raft().metrics().borrow_watched().clone();
    let replication = metrics.replication?;
    if metrics.membership_config != metrics.committed_membership_config {
        return None;
    }
    let membership = metrics.membership_config.membership();
    if membership.get_joint_config().len() > 1 {
        return Some(RaftNode::nothing_more());
    }
    let last = metrics.last_log_index.unwrap_or_default();
    let close = |id: &u64| replication.get(id).is_some_and(|matched| matched.is_some_and(|matched| matched.index + CLOSE >= last));
    let caught_up = membership.learner_ids().find(|id| membership.get_node(id).is_some_and(|member| !member.learner) && close(id))?;
    Some(ChangeMembers::AddVoterIds([caught_up].into()))
}
