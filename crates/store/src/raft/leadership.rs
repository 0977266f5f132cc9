//! Who leads, as far as this member can tell right now.

use std::time::Duration;

use openraft::{Instant, RaftMetrics, ServerState, async_runtime::watch::WatchReceiver, type_config::alias::WatchReceiverOf};

use super::{
    contact::Contact,
    types::{LeaderId, Member, Raft, TypeConfig},
};

/// The leader and where to reach it.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pub(crate) id: LeaderId,
    pub(crate) member: Member,
}

/// A view on the leadership; clones share it.
#[derive(Clone)]
pub(crate) struct Leadership {
    id: u64,
    metrics: WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>,
    contact: Contact,
    /// A leader nobody heard from for so long is none.
    patience: Duration,
}

impl Leadership {
    pub(crate) fn new(id: u64, raft: &Raft, contact: Contact, election_timeout: Duration) -> Self {
        // Somewhat more than the election timeout, so that one late heartbeat does not look like a lost leader.
        Self { id, metrics: raft.metrics(), contact, patience: election_timeout * 3 / 2 }
    }

    /// The leader, unless this member lost touch with it, or leads and lost touch with the quorum.
    pub(crate) fn current(&self) -> Option<Leader> {
        let metrics = self.metrics.borrow_watched();
        if !metrics.vote.committed {
            return None;
        }
        let id = metrics.vote.leader_id;
        let fresh = if id.node_id == self.id {
            metrics.state == ServerState::Leader && self.has_quorum(&metrics)
        } else {
            self.contact.is_fresh(id.node_id, self.patience)
        };
        let member = metrics.membership_config.get_node(&id.node_id)?.clone();
        fresh.then_some(Leader { id, member })
    }

    fn has_quorum(&self, metrics: &RaftMetrics<TypeConfig>) -> bool {
        let alone = metrics.membership_config.voter_ids().count() == 1;
        alone || metrics.last_quorum_acked.is_some_and(|at| at.elapsed() <= self.patience)
    }

    /// Returns once this member knows of another leadership than this one, or of a vote for one.
    pub(crate) async fn end_of(&self, id: LeaderId) {
        let mut metrics = self.metrics.clone();
        while metrics.borrow_watched().vote.leader_id == id {
            if metrics.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether this member leads.
    pub(crate) fn is_mine(&self, leader: &Leader) -> bool {
        leader.id.node_id == self.id
    }

    /// The leader, once there is one. Waits as long as it takes: callers set the deadline.
    pub(crate) async fn wait(&self) -> Leader {
        let mut metrics = self.metrics.clone();
        loop {
            if let Some(leader) = self.current() {
                return leader;
            }
            // Contact with a known leader comes back without a change of metrics.
            let changed = tokio::time::timeout(Duration::from_millis(20), metrics.changed()).await;
            if let Ok(Err(_)) = changed {
                std::future::pending::<()>().await;
            }
        }
    }
}
