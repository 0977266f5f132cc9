//! A running member: what is asked of it, and how it stops.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use openraft::{RaftMetrics, async_runtime::watch::WatchReceiver};
use tokio::time::{Instant, timeout_at};

use super::{
    barrier::Barrier,
    contact::Contact,
    leadership::{Leader, Leadership},
    log_store::LogStore,
    membership::Identity,
    peers::Peers,
    proposals::{Fate, Proposals},
    proposer::Proposer,
    reconfigure::Limits,
    server::PeerService,
    snapshot::Snapshots,
    types::{AppliedReceiver, Member, Proposal, Raft, TypeConfig},
};
use crate::{
    command::{Command, Outcome},
    disk::Home,
    metrics::Metrics,
    refusal::Refusal,
    state::State,
};

/// A leader that stops waits so long for another to take over.
const HANDOVER: Duration = Duration::from_secs(1);
/// Between two looks at whether consensus goes on, should its end not be noticed at once.
const LOOK: Duration = Duration::from_millis(250);

/// A running member; clones share it.
#[derive(Clone)]
pub(crate) struct RaftNode {
    pub(super) inner: Arc<Inner>,
}

/// What the clones share.
pub(super) struct Inner {
    pub(super) identity: Identity,
    pub(super) raft: Raft,
    pub(super) state: Arc<State>,
    pub(super) home: Arc<dyn Home>,
    pub(super) log: LogStore,
    pub(super) leadership: Leadership,
    pub(super) peers: Peers,
    pub(super) proposals: Arc<Proposals>,
    pub(super) proposer: Proposer,
    pub(super) barrier: Barrier,
    pub(super) snapshots: Snapshots,
    pub(super) contact: Contact,
    pub(super) applied: AppliedReceiver,
    /// Held while the state is hashed for another member.
    pub(super) hashing: tokio::sync::Mutex<()>,
    /// Held while the membership is changed.
    pub(super) reconfiguring: tokio::sync::Mutex<()>,
    pub(super) limits: Limits,
    pub(super) next_proposal: AtomicU64,
    /// Longest wait for a leader, and for an answer from it.
    pub(super) patience: Duration,
    pub(super) metrics: Metrics,
}

/// How far a member is, for Status and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) leader: u64,
    pub(crate) leads: bool,
    pub(crate) term: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    pub(crate) pending: usize,
    pub(crate) learner: bool,
}

impl RaftNode {
    /// The service for the other members.
    pub(crate) fn peer_router(&self) -> axum::Router {
        let Inner { raft, contact, snapshots, identity, .. } = &*self.inner;
        let service = PeerService { node: self.clone(), raft: raft.clone(), contact: contact.clone(), snapshots: snapshots.clone() };
        service.router(identity.clone())
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.inner.state
    }

    /// Where files may lie for a while; what is left there is removed at the next start.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.inner.snapshots.directory().to_owned()
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.inner.raft
    }

    pub(crate) fn log(&self) -> &LogStore {
        &self.inner.log
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.inner.peers
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The leader, if this member is in touch with one.
    pub(crate) fn leader(&self) -> Option<Leader> {
        self.inner.leadership.current()
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        &self.inner.leadership
    }

    pub(crate) fn contact(&self) -> &Contact {
        &self.inner.contact
    }

    /// The replicated membership by ID; true for learners.
    pub(crate) fn members(&self) -> Vec<(u64, Member, bool)> {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let learners: Vec<_> = membership.learner_ids().collect();
        membership.nodes().map(|(id, member)| (*id, member.clone(), learners.contains(id))).collect()
    }

    /// The term it is in.
    pub(crate) fn term(&self) -> u64 {
        self.inner.raft.metrics().borrow_watched().current_term
    }

    pub(crate) fn progress(&self) -> Progress {
        let metrics: RaftMetrics<TypeConfig> = self.inner.raft.metrics().borrow_watched().clone();
        let leader = self.leader();
        let id = self.inner.identity.member_id;
        Progress {
            leader: leader.as_ref().map_or(0, |leader| leader.id.node_id),
            leads: leader.is_some_and(|leader| self.inner.leadership.is_mine(&leader)),
            term: metrics.current_term,
            committed: metrics.local_committed.map_or(0, |id| id.index),
            applied: self.inner.applied.borrow_watched().saturating_sub(1),
            pending: self.inner.proposals.pending(),
            learner: metrics.membership_config.membership().get_node(&id).is_some_and(|member| member.learner),
        }
    }

    /// This member was added to learn only, and still does.
    pub(crate) fn learns(&self) -> bool {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.membership().get_node(&self.inner.identity.member_id).is_some_and(|member| member.learner)
    }

    /// This member was added, and does not have its vote for good yet.
    pub(crate) fn awaits_vote(&self) -> bool {
        let (id, metrics) = (self.inner.identity.member_id, self.inner.raft.metrics());
        let metrics = metrics.borrow_watched();
        let membership = metrics.committed_membership_config.membership();
        let votes = membership.get_joint_config().iter().all(|voters| voters.contains(&id));
        !membership.get_node(&id).is_some_and(|member| member.learner || votes)
    }

    /// Has a command applied, here too. See [`crate::node::Node::propose`].
    pub(crate) async fn propose(&self, command: Command) -> Result<Outcome, Refusal> {
        self.check_load()?;
        let result = self.propose_encoded(command.into_bytes()).await;
        if result.is_err() {
            self.inner.metrics.proposals_failed.inc();
        }
        result
    }

    async fn propose_encoded(&self, command: bytes::Bytes) -> Result<Outcome, Refusal> {
        let start = Instant::now();
        let deadline = start + self.inner.patience;
        let led_by = self.inner.leadership.id();
        while Instant::now() < deadline {
            let id = self.inner.next_proposal.fetch_add(1, Ordering::Relaxed);
            let fate = self.inner.proposals.register(id);
            let _waiting = self.inner.proposals.abandon_later(id);
            if !self.inner.proposer.send(Proposal { id, command: command.clone() }, deadline) {
                return Err(Refusal::TooManyRequests);
            }
            match timeout_at(deadline, fate).await {
                Ok(Ok(Fate::Applied(outcome))) => return Ok(outcome),
                Ok(Ok(Fate::Lost)) => {}
                Ok(Ok(Fate::Unknown)) => return Err(Refusal::Timeout),
                Ok(Err(_)) => return Err(Refusal::Stopped),
                Err(_) => break,
            }
        }
        let leads_now = self.inner.leadership.id();
        Err(if led_by.is_some() && led_by != leads_now { Refusal::TimeoutLeaderFailed } else { Refusal::Timeout })
    }

    /// Longest wait for a leader, and for an answer from it.
    pub(crate) fn patience(&self) -> Duration {
        self.inner.patience
    }

    /// See [`crate::node::Node::read_barrier`].
    pub(crate) async fn read_barrier(&self) -> Result<(), Refusal> {
        let result = self.inner.barrier.pass().await;
        if result.is_err() {
            self.inner.metrics.read_indexes_failed.inc();
        }
        result
    }

    /// Hands the leadership to another voter. Only the leader can.
    pub(crate) async fn move_leader(&self, target: u64) -> Result<(), Refusal> {
        let leader = self.leader().filter(|leader| self.inner.leadership.is_mine(leader));
        let leader = leader.ok_or(Refusal::NotLeader)?;
        if target == leader.id.node_id {
            return Ok(());
        }
        if !self.members().iter().any(|(id, _, learner)| *id == target && !learner) {
            return Err(Refusal::BadLeaderTransferee);
        }
        let mut metrics = self.inner.raft.metrics();
        self.inner.raft.trigger().transfer_leader(target).await.map_err(|_| Refusal::Stopped)?;
        let moved = async {
            while metrics.borrow_watched().current_leader != Some(target) {
                metrics.changed().await.map_err(|_| Refusal::Stopped)?;
            }
            Ok(())
        };
        tokio::time::timeout(self.inner.patience, moved).await.map_err(|_| Refusal::Timeout)?
    }

    /// Consensus has ended, for whatever cause.
    pub(crate) fn stopped(&self) -> bool {
        self.inner.raft.metrics().borrow_watched().running_state.is_err()
    }

    /// Returns with the cause once this member can go on no longer: its disk failed, or it contradicts itself.
    pub(crate) async fn failed(&self) -> String {
        let (metrics, mut leadership) = (self.inner.raft.metrics(), self.inner.leadership.clone());
        loop {
            // The metrics change with every entry, and nobody need be woken for that; this ends with consensus.
            let ended = matches!(tokio::time::timeout(LOOK, leadership.changed()).await, Ok(Err(_)));
            if let Err(fatal) = &metrics.borrow_watched().running_state {
                return fatal.to_string();
            }
            if ended {
                return "the consensus task ended".into();
            }
        }
    }

    /// Hands the leadership on, if this member leads and there is somebody to take it.
    pub(crate) async fn hand_on(&self) {
        let Some(heir) = self.heir() else { return };
        // Without it the others elect one by themselves, somewhat later.
        match tokio::time::timeout(HANDOVER, self.move_leader(heir)).await {
            Ok(Ok(())) => tracing::info!(to = format!("{heir:x}"), "handed the leadership on"),
            Ok(Err(refusal)) => tracing::warn!(%refusal, "hand the leadership on"),
            Err(_) => tracing::warn!("nobody took the leadership in {HANDOVER:?}"),
        }
    }

    /// Hands the leadership on, ends consensus and flushes the state, so that the next start replays nothing.
    pub(crate) async fn stop(&self) {
        self.hand_on().await;
        if let Err(error) = self.inner.raft.shutdown().await {
            tracing::warn!(%error, "stop consensus");
        }
        let database = self.inner.home.current();
        let flushed = database.offload().run(move || database.sync()).await;
        match flushed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "flush state"),
            Err(error) => tracing::warn!(%error, "flush state"),
        }
    }
}

impl RaftNode {
    /// The follower with the most log, if this member leads.
    pub(super) fn heir(&self) -> Option<u64> {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let id = self.inner.identity.member_id;
        let voters: Vec<_> = metrics.membership_config.voter_ids().filter(|voter| *voter != id).collect();
        let followers = metrics.replication?.into_iter().filter(|(follower, _)| voters.contains(follower));
        followers.max_by_key(|(_, matched)| *matched).map(|(follower, _)| follower)
    }
}
