//! A leader whose process is gone: its stream of appends ends, and its host refuses connections. Nobody has to wait out
//! an election timeout then, which is for leaders that fell silent.
//!
//! The next leader is elected as if the lost one had handed the leadership on: the others grant their vote although they
//! heard from it just now. What makes an election safe is untouched: a majority, and a log that lacks nothing.

use std::time::Duration;

use openraft::{async_runtime::watch::WatchReceiver, raft::TransferLeaderRequest};
use tokio::time::sleep;

use super::{
    member::RaftNode,
    types::{Member, Vote},
};

/// A process that dies closes its connections and its door in any order: one that still accepts is asked again so often.
const LOOKS: u32 = 3;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until the member stops.
pub(crate) async fn replace(node: RaftNode, election_timeout: Duration) {
    loop {
        tokio::select! {
            biased;
            () = node.contact().stream_ended() => {}
            _ = node.failed() => return,
        }
        let Some(lost) = lost(&node).await else { continue };
        // One after the other, so that they do not take votes from each other.
        sleep(election_timeout / 8 * turn(&node, lost.leader_id.node_id)).await;
        if node.raft().metrics().borrow_watched().vote != lost {
            continue;
        }
        tracing::warn!(leader = format!("{:x}", lost.leader_id.node_id), "the leader's process is gone; standing for election");
        let id = node.identity().member_id;
        // Whether its log lacks something, the voters know.
        let handover = TransferLeaderRequest::new(lost, id, None);
        if let Err(error) = node.raft().handle_transfer_leader(handover).await {
            tracing::debug!(%error, "stand for election");
        }
    }
}

/// The leadership whose leader is gone, if one is.
async fn lost(node: &RaftNode) -> Option<Vote> {
    let (vote, leader) = led_by_another(node)?;
    for _ in 0..LOOKS {
        if node.peers().refuses(vote.leader_id.node_id, &leader).await {
            return Some(vote);
        }
        sleep(LOOK).await;
    }
    None
}

fn led_by_another(node: &RaftNode) -> Option<(Vote, Member)> {
    let metrics = node.raft().metrics();
    let metrics = metrics.borrow_watched();
    let (vote, id, mine) = (metrics.vote, metrics.vote.leader_id.node_id, node.identity().member_id);
    let leader = metrics.membership_config.membership().get_node(&id)?.clone();
    let votes = metrics.membership_config.voter_ids().any(|voter| voter == mine);
    (votes && vote.committed && id != mine).then_some((vote, leader))
}

/// How many other voters stand for election before this one.
fn turn(node: &RaftNode, lost: u64) -> u32 {
    let id = node.identity().member_id;
    let before = node.members().into_iter().filter(|(other, _, learner)| !learner && *other != lost && *other < id);
    before.count() as u32
}
