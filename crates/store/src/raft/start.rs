//! Starting a member: open its databases, replay what was committed, form or join the cluster, wire its tasks.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use openraft::async_runtime::watch::WatchReceiver as _;

use super::{
    alone,
    barrier::{Barrier, Rounds},
    contact::Contact,
    housekeeping,
    leadership::Leadership,
    log_store::LogStore,
    lost_leader,
    member::{Inner, RaftNode},
    membership::{self, Identity},
    network::Network,
    peers::{Dial, Peers},
    probe,
    proposals::Proposals,
    proposer::{Proposer, Sender},
    reconfigure::{self, Limits},
    removed, reversed,
    snapshot::Snapshots,
    state_machine::{Parts, StateMachine},
    types::{AppliedReceiver, Fatal, Member, Raft},
};
use crate::{
    disk::{self, Disks, Home},
    metrics::Metrics,
    state::{Clock, State},
};

/// What a member needs to run.
pub(crate) struct Options {
    /// Where its databases lie; made when missing.
    pub(crate) directory: PathBuf,
    /// Opens them.
    pub(crate) disks: disk::Open,
    /// Who a new directory belongs to, or why that cannot be told; one that is in use knows by itself.
    pub(crate) identity: Result<Identity, membership::Error>,
    /// The members of a new cluster; empty when an existing one is joined.
    pub(crate) initial: BTreeMap<u64, Member>,
    /// How it reaches the others.
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) limits: Limits,
    pub(crate) heartbeat: Duration,
    pub(crate) election_timeout: Duration,
    /// Whoever else was a member is none any more.
    pub(crate) force_new_cluster: bool,
    /// Entries after which a snapshot is taken.
    pub(crate) snapshot_count: u64,
    /// The first proposal's ID; random, so that IDs of an earlier run do not come again.
    pub(crate) first_proposal: u64,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// Applying a batch of commands should not take longer.
    pub(crate) slow_apply: Duration,
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
    #[error(transparent)]
    Membership(#[from] membership::Error),
    #[error("consensus configuration")]
    Config(#[from] openraft::ConfigError),
    #[error("recover the state in {0}: {1}")]
    Recover(PathBuf, String),
    #[error("form a new cluster: {0}")]
    Bootstrap(String),
}

impl RaftNode {
    /// Opens what lies in the directory, replays what was committed, and takes part in the cluster.
    pub(crate) async fn start(options: Options) -> Result<Self, Error> {
        let directory = options.directory.clone();
        let Disks { log: database, home } = open(&options)?;
        if options.force_new_cluster {
            alone::stay_alone(&*database, &*home.current()).map_err(|e| Error::Log(directory.clone(), e))?;
        }
        let metrics = options.metrics.clone();
        let log = LogStore::open(database, move |took| metrics.wal_synced(took));
        let log = log.map_err(|e| Error::Log(directory.clone(), e))?;
        let state = State::open(home.current(), options.clock.clone()).map_err(|e| Error::Open(directory.clone(), e))?;
        let snapshots =
            Snapshots::open(directory.join("snapshots"), home.current().offload()).map_err(|e| Error::Create(directory.clone(), e))?;
        let known = log.identity().map_err(|e| Error::Log(directory.clone(), e))?;
        let identity = known.clone().map_or_else(|| options.identity.clone(), Ok)?;
        let proposals = Arc::<Proposals>::default();
        let peers = Peers::new(identity.clone(), options.dial.clone(), options.metrics.clone());
        let machine = StateMachine::open(Parts {
            state: state.clone(),
            home: home.clone(),
            snapshots: snapshots.clone(),
            proposals: proposals.clone(),
            hardened: log.hardened(),
            removed: peers.removed().clone(),
            metrics: options.metrics.clone(),
            slow: options.slow_apply,
        });
        let machine = machine.map_err(|e| Error::Log(directory.clone(), e))?;
        let applied = machine.applied();
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
            metrics: options.metrics.clone(),
        });
        let next_proposal = AtomicU64::new(options.first_proposal);
        let metrics = options.metrics.clone();
        let inner = Inner {
            identity,
            raft,
            state,
            home,
            log,
            leadership,
            peers,
            proposals,
            proposer,
            barrier,
            snapshots,
            contact,
            applied,
            reconfiguring: tokio::sync::Mutex::default(),
            hashing: tokio::sync::Mutex::default(),
            limits: options.limits,
            next_proposal,
            patience,
            metrics,
        };
        let node = Self { inner: Arc::new(inner) };
        tokio::spawn(housekeeping::follow_leadership(node.clone(), options.election_timeout));
        tokio::spawn(housekeeping::take_snapshots(node.clone(), options.snapshot_count));
        tokio::spawn(reconfigure::tend(node.clone()));
        tokio::spawn(removed::ask_the_others(node.clone()));
        tokio::spawn(lost_leader::replace(node.clone(), options.election_timeout));
        tokio::spawn(probe::run(node.clone()));
        tokio::spawn(reversed::offer(node.clone()));
        node
    }
}

struct Wired {
    identity: Identity,
    raft: Raft,
    state: Arc<State>,
    home: Arc<dyn Home>,
    log: LogStore,
    peers: Peers,
    proposals: Arc<Proposals>,
    snapshots: Snapshots,
    applied: AppliedReceiver,
}

fn open(options: &Options) -> Result<Disks, Error> {
    std::fs::create_dir_all(&options.directory).map_err(|e| Error::Create(options.directory.clone(), e))?;
    (options.disks)(&options.directory).map_err(|e| Error::Open(options.directory.clone(), e))
}

/// etcd's timings in openraft's terms: a follower campaigns between one and a half and two election timeouts after it
/// last heard from a leader (its lease, then a random part), and grants nobody a vote within one. The shortest random
/// part is also how long a candidate waits for a vote, which the voter has to sync.
///
/// A heartbeat must be answered before the next one is due, or it counts for nothing: where that is sooner than the
/// election timeout allows for, they are sent less often than asked, so that a far or busy peer is not a lost one.
fn config(options: &Options) -> Result<openraft::Config, openraft::ConfigError> {
    let election = options.election_timeout.as_millis() as u64;
    let heartbeat = (options.heartbeat.as_millis() as u64).max(election / 3);
    let config = openraft::Config {
        cluster_name: "store".into(),
        heartbeat_interval: heartbeat,
        election_timeout_min: (election / 2).max(heartbeat + 1),
        election_timeout_max: election,
        enable_pre_vote: Some(true),
        // A leader that hears no quorum falls silent for so long: those who still hear it can elect another.
        quorum_loss_probe_interval: Some(3 * election),
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

/// Forms a new cluster. Every initial member does it with the same membership. One that has done so stands for election
/// at once: who leads already is not disturbed by it, and where nobody does, nobody need be waited for.
async fn bootstrap(raft: &Raft, initial: BTreeMap<u64, Member>) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Bootstrap(error.to_string());
    if raft.is_initialized().await.map_err(|e| failed(&e))? {
        return stand_for_election(raft).await.map_err(|e| failed(&e));
    }
    if initial.is_empty() {
        return Ok(());
    }
    raft.initialize(initial).await.map_err(|e| failed(&e))
}

/// Asks the others first whether they would give their votes, unless there are none.
async fn stand_for_election(raft: &Raft) -> Result<(), Fatal> {
    let alone = {
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.voter_ids().eq([metrics.id])
    };
    raft.trigger().elect(!alone).await
}
