//! A running member: its databases, its raft, and the tasks that go with them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use openraft::{RaftMetrics, async_runtime::watch::WatchReceiver};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    barrier::{Barrier, Rounds},
    contact::Contact,
    leadership::{Leader, Leadership},
    log_store::LogStore,
    membership::Identity,
    network::Network,
    peers::{PeerTls, Peers},
    proposals::{Fate, Proposals},
    proposer::{Proposer, Sender},
    server::PeerService,
    snapshot::Snapshots,
    state_machine::{Parts, StateMachine},
    types::{Member, Proposal, Raft, TypeConfig},
};
use crate::{
    command::{Command, Outcome},
    disk::{self, Database, Home, Rocks, Shared},
    metrics::Metrics,
    refusal::Refusal,
    state::{Clock, State},
};

/// A leader that stops waits so long for another to take over.
const HANDOVER: Duration = Duration::from_secs(1);

/// What a member needs to run.
pub(crate) struct Options {
    /// Where its databases lie; made when missing.
    pub(crate) directory: PathBuf,
    /// Who a new directory belongs to; one that is in use knows by itself.
    pub(crate) identity: Identity,
    /// The members of a new cluster; empty when an existing one is joined.
    pub(crate) initial: BTreeMap<u64, Member>,
    pub(crate) tls: PeerTls,
    pub(crate) heartbeat: Duration,
    pub(crate) election_timeout: Duration,
    /// Entries after which a snapshot is taken.
    pub(crate) snapshot_count: u64,
    /// The first proposal's ID; random, so that IDs of an earlier run do not come again.
    pub(crate) first_proposal: u64,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("create data directory {0}")]
    Create(PathBuf, #[source] io::Error),
    #[error("data directory {0} is in use or not readable")]
    Open(PathBuf, #[source] disk::Error),
    #[error("read the raft log in {0}")]
    Log(PathBuf, #[source] io::Error),
    #[error("consensus configuration")]
    Config(#[from] openraft::ConfigError),
    #[error("recover the state in {0}: {1}")]
    Recover(PathBuf, String),
    #[error("form a new cluster: {0}")]
    Bootstrap(String),
}

/// A running member; clones share it.
#[derive(Clone)]
pub(crate) struct RaftNode {
    inner: Arc<Inner>,
}

struct Inner {
    identity: Identity,
    raft: Raft,
    state: Arc<State>,
    home: Arc<Home>,
    log: LogStore,
    leadership: Leadership,
    peers: Peers,
    proposals: Arc<Proposals>,
    proposer: Proposer,
    barrier: Barrier,
    snapshots: Snapshots,
    contact: Contact,
    applied: watch::Receiver<u64>,
    next_proposal: AtomicU64,
    /// Longest wait for a leader, and for an answer from it.
    patience: Duration,
    metrics: Metrics,
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
    /// Opens what lies in the directory, replays what was committed, and takes part in the cluster.
    pub(crate) async fn start(options: Options) -> Result<Self, Error> {
        let directory = options.directory.clone();
        let (database, home) = open(&directory)?;
        let metrics = options.metrics.clone();
        let log = LogStore::open(database, move |took| metrics.wal_synced(took));
        let log = log.map_err(|e| Error::Log(directory.clone(), e))?;
        let state = State::open(home.current(), options.clock.clone()).map_err(|e| Error::Open(directory.clone(), e))?;
        let snapshots = Snapshots::open(directory.join("snapshots")).map_err(|e| Error::Create(directory.clone(), e))?;
        let known = log.identity().map_err(|e| Error::Log(directory.clone(), e))?;
        let identity = known.clone().unwrap_or_else(|| options.identity.clone());
        let proposals = Arc::<Proposals>::default();
        let machine = StateMachine::open(Parts {
            state: state.clone(),
            home: home.clone(),
            snapshots: snapshots.clone(),
            proposals: proposals.clone(),
            hardened: log.hardened(),
            metrics: options.metrics.clone(),
        });
        let machine = machine.map_err(|e| Error::Log(directory.clone(), e))?;
        let applied = machine.applied();
        let peers = Peers::new(identity.clone(), options.tls.clone());
        let network = Network { peers: peers.clone(), id: identity.member_id };
        let config = Arc::new(config(&options)?);
        let raft = Raft::new(identity.member_id, config, network, log.clone(), machine).await;
        let raft = raft.map_err(|e| Error::Recover(directory.clone(), e.to_string()))?;
        if known.is_none() {
            log.save_identity(&identity).await.map_err(|e| Error::Log(directory.clone(), e))?;
        }
        bootstrap(&raft, options.initial.clone()).await?;
        let parts = Wired { identity, raft, state, home, log, peers, proposals, snapshots, applied };
        Ok(Self::wire(parts, &options))
    }

    fn wire(parts: Wired, options: &Options) -> Self {
        let Wired { identity, raft, state, home, log, peers, proposals, snapshots, applied } = parts;
        let contact = Contact::new();
        let leadership = Leadership::new(identity.member_id, &raft, contact.clone(), options.election_timeout);
        let patience = Duration::from_secs(5) + options.election_timeout;
        let proposer = Proposer::spawn(Sender {
            raft: raft.clone(),
            leadership: leadership.clone(),
            peers: peers.clone(),
            proposals: proposals.clone(),
        });
        let barrier = Barrier::spawn(Rounds {
            raft: raft.clone(),
            leadership: leadership.clone(),
            peers: peers.clone(),
            applied: applied.clone(),
            patience,
        });
        let next_proposal = AtomicU64::new(options.first_proposal);
        let metrics = options.metrics.clone();
        let inner = Inner {
            identity, raft, state, home, log, leadership, peers, proposals, proposer, barrier, snapshots, contact,
            applied, next_proposal, patience, metrics,
        };
        let node = Self { inner: Arc::new(inner) };
        tokio::spawn(super::housekeeping::follow_leadership(node.clone(), options.election_timeout));
        tokio::spawn(super::housekeeping::take_snapshots(node.clone(), options.snapshot_count));
        node
    }

    /// The service for the other members.
    pub(crate) fn peer_router(&self) -> axum::Router {
        let Inner { raft, contact, snapshots, identity, .. } = &*self.inner;
        let service = PeerService {
            node: self.clone(),
            raft: raft.clone(),
            contact: contact.clone(),
            snapshots: snapshots.clone(),
        };
        service.router(identity.clone())
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.inner.state
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

    /// The replicated membership by ID; true for learners.
    pub(crate) fn members(&self) -> Vec<(u64, Member, bool)> {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let membership = metrics.membership_config.membership();
        let learners: Vec<_> = membership.learner_ids().collect();
        membership.nodes().map(|(id, member)| (*id, member.clone(), learners.contains(id))).collect()
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
            applied: self.inner.applied.borrow().saturating_sub(1),
            pending: self.inner.proposals.pending(),
            learner: metrics.membership_config.membership().learner_ids().any(|learner| learner == id),
        }
    }

    /// Has a command applied, here too. See [`crate::node::Node::propose`].
    pub(crate) async fn propose(&self, command: Command) -> Result<Outcome, Refusal> {
        let result = self.propose_encoded(command.into_bytes()).await;
        if result.is_err() {
            self.inner.metrics.proposals_failed.inc();
        }
        result
    }

    async fn propose_encoded(&self, command: bytes::Bytes) -> Result<Outcome, Refusal> {
        let start = Instant::now();
        let deadline = start + self.inner.patience;
        let led_by = self.leader().map(|leader| leader.id);
        while Instant::now() < deadline {
            let id = self.inner.next_proposal.fetch_add(1, Ordering::Relaxed);
            let fate = self.inner.proposals.register(id);
            let _abandon = Abandon { proposals: &self.inner.proposals, id };
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
        let leads_now = self.leader().map(|leader| leader.id);
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

    /// Returns with the cause once this member can go on no longer: its disk failed, or it contradicts itself.
    pub(crate) async fn failed(&self) -> String {
        let mut metrics = self.inner.raft.metrics();
        loop {
            if let Err(fatal) = &metrics.borrow_watched().running_state {
                return fatal.to_string();
            }
            if metrics.changed().await.is_err() {
                return "the consensus task ended".into();
            }
        }
    }

    /// Hands the leadership on, ends consensus and flushes the state, so that the next start replays nothing.
    pub(crate) async fn stop(&self) {
        if let Some(heir) = self.heir() {
            // Without it the others elect one by themselves, somewhat later.
            match tokio::time::timeout(HANDOVER, self.move_leader(heir)).await {
                Ok(Ok(())) => tracing::info!(to = format!("{heir:x}"), "handed the leadership on"),
                Ok(Err(refusal)) => tracing::warn!(%refusal, "hand the leadership on"),
                Err(_) => tracing::warn!("nobody took the leadership in {HANDOVER:?}"),
            }
        }
        if let Err(error) = self.inner.raft.shutdown().await {
            tracing::warn!(%error, "stop consensus");
        }
        let home = self.inner.home.clone();
        let flushed = tokio::task::spawn_blocking(move || home.current().sync()).await;
        match flushed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "flush state"),
            Err(error) => tracing::warn!(%error, "flush state"),
        }
    }
}

impl RaftNode {
    /// The follower with the most log, if this member leads.
    fn heir(&self) -> Option<u64> {
        let metrics = self.inner.raft.metrics().borrow_watched().clone();
        let id = self.inner.identity.member_id;
        let voters: Vec<_> = metrics.membership_config.voter_ids().filter(|voter| *voter != id).collect();
        let followers = metrics.replication?.into_iter().filter(|(follower, _)| voters.contains(follower));
        followers.max_by_key(|(_, matched)| *matched).map(|(follower, _)| follower)
    }
}

struct Wired {
    identity: Identity,
    raft: Raft,
    state: Arc<State>,
    home: Arc<Home>,
    log: LogStore,
    peers: Peers,
    proposals: Arc<Proposals>,
    snapshots: Snapshots,
    applied: watch::Receiver<u64>,
}

/// Stops waiting when the client gives up.
struct Abandon<'a> {
    proposals: &'a Proposals,
    id: u64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.proposals.abandon(self.id);
    }
}

fn open(directory: &Path) -> Result<(Arc<dyn Database>, Arc<Home>), Error> {
    let create = |path: PathBuf| std::fs::create_dir_all(&path).map_err(|e| Error::Create(path, e));
    create(directory.join("raft"))?;
    let opened = |e| Error::Open(directory.to_owned(), e);
    let shared = Arc::new(Shared::default());
    let raft = Rocks::open_raft(&directory.join("raft"), &shared).map_err(opened)?;
    let home = Home::open(directory.to_owned(), shared).map_err(opened)?;
    Ok((Arc::new(raft), Arc::new(home)))
}

/// etcd's timings in openraft's terms: a follower campaigns between one and a half and two election timeouts after it
/// last heard from a leader (its lease, then a random part), and grants nobody a vote within one. The shortest random
/// part is also how long a candidate waits for a vote, which the voter has to sync.
fn config(options: &Options) -> Result<openraft::Config, openraft::ConfigError> {
    let election = options.election_timeout.as_millis() as u64;
    let heartbeat = options.heartbeat.as_millis() as u64;
    let config = openraft::Config {
        cluster_name: "store".into(),
        heartbeat_interval: heartbeat,
        election_timeout_min: (election / 2).max(heartbeat + 1),
        election_timeout_max: election,
        enable_pre_vote: Some(true),
        // A restarted leader has to be elected again: only then does it know what was committed without it.
        enable_leader_restore: Some(false),
        // Both are decided by log bytes, in `housekeeping`.
        snapshot_policy: openraft::SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        // A follower gets a snapshot only when the log it needs is gone.
        replication_lag_threshold: u64::MAX / 2,
        install_snapshot_timeout: 10 * 60 * 1000,
        backoff: "50ms 100ms 200ms ..500ms".into(),
        ..Default::default()
    };
    config.validate()
}

/// Forms a new cluster. Every initial member does it with the same membership; one that has done so is left alone.
async fn bootstrap(raft: &Raft, initial: BTreeMap<u64, Member>) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Bootstrap(error.to_string());
    if raft.is_initialized().await.map_err(|e| failed(&e))? || initial.is_empty() {
        return Ok(());
    }
    raft.initialize(initial).await.map_err(|e| failed(&e))
}
