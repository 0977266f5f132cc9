//! Who leads, as far as this member can tell right now.

use std::time::Duration;

use openraft::{
    Instant, RaftMetrics, ServerState,
    async_runtime::watch::{RecvError, WatchReceiver},
    metrics::RaftServerMetrics,
    type_config::alias::WatchReceiverOf,
};

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
    /// Changes only with who leads, who is a member and who is voted for; `metrics` with every entry.
    changes: WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>,
    contact: Contact,
    /// A leader nobody heard from for so long is none.
    patience: Duration,
}

impl Leadership {
    pub(crate) fn new(id: u64, raft: &Raft, contact: Contact, election_timeout: Duration) -> Self {
        // Somewhat more than the election timeout, so that one late heartbeat does not look like a lost leader.
        Self { id, metrics: raft.metrics(), changes: raft.server_metrics(), contact, patience: election_timeout * 3 / 2 }
    }

    /// The leader, unless this member lost touch with it, or leads and lost touch with the quorum.
    pub(crate) fn current(&self) -> Option<Leader> {
        let metrics = self.metrics.borrow_watched();
        let id = self.leader_of(&metrics)?;
        let member = metrics.membership_config.get_node(&id.node_id)?.clone();
        Some(Leader { id, member })
    }

    /// The leadership of [`Leadership::current`], at less cost.
    pub(crate) fn id(&self) -> Option<LeaderId> {
        self.leader_of(&self.metrics.borrow_watched())
    }

    fn leader_of(&self, metrics: &RaftMetrics<TypeConfig>) -> Option<LeaderId> {
        if !metrics.vote.committed {
            return None;
        }
        let id = metrics.vote.leader_id;
        let fresh = if id.node_id == self.id {
            metrics.state == ServerState::Leader && self.has_quorum(metrics)
        } else {
            self.contact.is_fresh(id.node_id, self.patience)
        };
        fresh.then_some(id)
    }

    fn has_quorum(&self, metrics: &RaftMetrics<TypeConfig>) -> bool {
        let alone = metrics.membership_config.voter_ids().count() == 1;
        alone || metrics.last_quorum_acked.is_some_and(|at| at.elapsed() <= self.patience)
    }

    /// This member leads, there is no other, and it has applied an entry of its leadership: everything that was ever
    /// acknowledged is applied here. A second member would first have to be in the log that this one applies.
    pub(crate) fn is_alone(&self) -> bool {
        let metrics = self.metrics.borrow_watched();
        let leads = metrics.state == ServerState::Leader && metrics.vote.committed;
        let applied = metrics.last_applied.is_some_and(|last| last.leader_id == metrics.vote.leader_id);
        leads && applied && metrics.membership_config.nodes().count() == 1
    }

    /// Returns once this member knows of another leadership than this one, or of a vote for one.
    pub(crate) async fn end_of(&self, id: LeaderId) {
        let mut changes = self.changes.clone();
        while changes.borrow_watched().vote.leader_id == id {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns after who leads may have changed; an error: it never will again.
    pub(crate) async fn changed(&mut self) -> Result<(), RecvError> {
        self.changes.changed().await
    }

    /// Whether this member leads.
    pub(crate) fn is_mine(&self, leader: &Leader) -> bool {
        leader.id.node_id == self.id
    }

    /// The leader, once there is one. Waits as long as it takes: callers set the deadline.
    pub(crate) async fn wait(&self) -> Leader {
        if let Some(leader) = self.current() {
            return leader;
        }
        let mut changes = self.changes.clone();
        loop {
            if let Some(leader) = self.current() {
                return leader;
            }
            // Contact with a known leader comes back without a change.
            let changed = tokio::time::timeout(Duration::from_millis(20), changes.changed()).await;
            if let Ok(Err(_)) = changed {
                std::future::pending::<()>().await;
            }
        }
    }
}
