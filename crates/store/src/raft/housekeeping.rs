//! What a member does beside serving: follow the leadership, take snapshots, give up old log.

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;

use super::{member::RaftNode, types::LogId};

/// Log bytes after which a snapshot is taken.
const SNAPSHOT_BYTES: u64 = 16 << 20;
/// How often the log's growth and the leadership are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Counts the time of leases while this member leads, and notes changes of leaders.
pub(crate) async fn follow_leadership(node: RaftNode, election_timeout: Duration) {
    let mut leadership = node.leadership().clone();
    let (mut led, mut seen) = (None, None);
    loop {
        let leader = leadership.id();
        let mine = leader.filter(|leader| leader.node_id == node.identity().member_id);
        if mine != led {
            match mine {
                Some(id) => {
                    tracing::info!(term = id.term, "became leader");
                    node.state().promote(id.term, election_timeout);
                }
                None => {
                    tracing::info!("no longer the leader");
                    node.state().demote();
                }
            }
            led = mine;
        }
        if leader.is_some() && leader != seen {
            if seen.is_some() {
                node.metrics().leader_changes.inc();
            }
            tracing::info!(leader = leader.map(|id| format!("{:x}", id.node_id)), "found a leader");
            seen = leader;
        }
        if let Ok(Err(_)) = tokio::time::timeout(LOOK, leadership.changed()).await {
            return;
        }
    }
}

/// Takes a snapshot after so many bytes or entries of log, and gives up the log before the snapshot before it: a
/// follower that is no further behind needs no snapshot.
pub(crate) async fn take_snapshots(node: RaftNode, entries: u64) {
    let mut snapshot: Option<LogId> = node.raft().metrics().borrow_watched().snapshot;
    let mut bytes = node.log().appended_bytes();
    loop {
        tokio::time::sleep(LOOK).await;
        let metrics = node.raft().metrics();
        let (applied, latest) = {
            let metrics = metrics.borrow_watched();
            if metrics.running_state.is_err() {
                return;
            }
            (metrics.last_applied, metrics.snapshot)
        };
        if latest > snapshot {
            if let Some(previous) = snapshot {
                tracing::debug!(upto = previous.index, "purge log");
                let _ = node.raft().trigger().purge_log(previous.index).await;
            }
            snapshot = latest;
            bytes = node.log().appended_bytes();
            continue;
        }
        let index = |id: Option<LogId>| id.map_or(0, |id| id.index);
        let grown = node.log().appended_bytes() - bytes >= SNAPSHOT_BYTES;
        if (grown || index(applied) >= index(snapshot) + entries) && applied > snapshot {
            // A stopped raft task is noticed elsewhere.
            let _ = node.raft().trigger().snapshot().await;
        }
    }
}
