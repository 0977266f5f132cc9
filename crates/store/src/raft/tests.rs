//! openraft's own suite for storage, and what it does not ask.

use std::{sync::Arc, time::Duration};

use openraft::{
    StorageError,
    entry::RaftEntry,
    storage::{IOFlushed, RaftLogReader, RaftLogStorage, RaftLogStorageExt},
    testing::log::{StoreBuilder, Suite},
};
use tempfile::TempDir;
use tokio::sync::watch;

use super::{
    Options, RaftNode,
    log_store::LogStore,
    membership::{self, Identity},
    peers::PeerTls,
    proposals::Proposals,
    reconfigure::Limits,
    removed::Removed,
    snapshot::Snapshots,
    state_machine::{Parts, StateMachine},
    types::{Bundle, Entry, LeaderId, LogId, Proposal, TypeConfig},
    wire::{self, pb},
};
use crate::{
    disk::{self, Database, Home as _, Rocks, RocksHome, Shared, memory::Memory},
    metrics::Metrics,
    state::State,
};

/// Makes stores for the suite; the log on RocksDB or in memory.
struct Builder {
    in_memory: bool,
}

fn machine(directory: &TempDir, shared: Arc<Shared>) -> StateMachine {
    let home = Arc::new(RocksHome::open(directory.path().into(), shared).unwrap());
    // The suite applies entries it never appended.
    let (_, hardened) = watch::channel(Ok(u64::MAX));
    StateMachine::open(Parts {
        state: State::open(home.current(), Arc::new(Default::default)).unwrap(),
        home,
        snapshots: Snapshots::open(directory.path().join("snapshots"), Default::default()).unwrap(),
        proposals: Arc::<Proposals>::default(),
        hardened,
        removed: Removed::new(Identity { cluster_id: 1, member_id: 1 }),
        metrics: Metrics::new(),
        slow: Duration::MAX,
    })
    .unwrap()
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let directory = tempfile::tempdir().unwrap();
        let shared = Arc::<Shared>::default();
        let database: Arc<dyn Database> = match self.in_memory {
            true => Arc::new(Memory::new()),
            false => Arc::new(Rocks::open_raft(&directory.path().join("raft"), &shared).unwrap()),
        };
        let log = LogStore::open(database, |_| {}).unwrap();
        let machine = machine(&directory, shared);
        Ok((directory, log, machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_storage_suite_passes_on_rocksdb() {
    Suite::test_all(Builder { in_memory: false }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_storage_suite_passes_in_memory() {
    Suite::test_all(Builder { in_memory: true }).await.unwrap();
}

fn entry(term: u64, index: u64, size: usize) -> Entry {
    let id = LogId { leader_id: LeaderId { term, node_id: 1 }, index };
    Entry::new_normal(id, Bundle::new([Proposal { id: index, command: vec![7; size].into() }]))
}

fn indexes(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.log_id.index).collect()
}

#[tokio::test]
async fn a_crash_takes_only_what_was_not_called_back() {
    let disk = Arc::new(Memory::new());
    let mut log = LogStore::open(disk.clone(), |_| {}).unwrap();
    log.blocking_append((0..10).map(|index| entry(1, index, 10))).await.unwrap();
    log.append((10..20).map(|index| entry(1, index, 10)), IOFlushed::noop()).await.unwrap();
    // Nothing ran since: the second sync has not been done.
    disk.crash(0);
    let mut log = LogStore::open(disk, |_| {}).unwrap();
    assert_eq!(log.get_log_state().await.unwrap().last_log_id.unwrap().index, 9);
    assert_eq!(*log.hardened().borrow(), Ok(10));
}

#[tokio::test]
async fn a_vote_survives_a_crash_once_it_is_saved() {
    let disk = Arc::new(Memory::new());
    let mut log = LogStore::open(disk.clone(), |_| {}).unwrap();
    let vote = openraft::Vote::new(7, 3);
    log.save_vote(&vote).await.unwrap();
    disk.crash(0);
    assert_eq!(LogStore::open(disk, |_| {}).unwrap().read_vote().await.unwrap(), Some(vote));
}

#[tokio::test]
async fn bundles_of_any_size_read_back_from_memory_and_from_disk() {
    let disk = Arc::new(Memory::new());
    let proposal = |id: u64| Proposal { id, command: id.to_string().into() };
    let id = |index| LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index };
    let bundle =
        |index: u64| Entry::new_normal(id(index), Bundle::new((0..index).map(|id| proposal(index * 100 + id)).collect::<Vec<_>>()));
    let entries: Vec<_> = (0..4).map(bundle).collect();
    let mut log = LogStore::open(disk.clone(), |_| {}).unwrap();
    log.blocking_append(entries.clone()).await.unwrap();
    assert_eq!(log.try_get_log_entries(0..4).await.unwrap(), entries);
    let mut reopened = LogStore::open(disk, |_| {}).unwrap();
    assert_eq!(reopened.try_get_log_entries(0..4).await.unwrap(), entries);
}

#[tokio::test]
async fn an_entry_written_before_there_were_bundles_is_one_of_one_proposal() {
    let id = LogId { leader_id: LeaderId { term: 3, node_id: 1 }, index: 9 };
    let proposal = Proposal { id: 7, command: "x".into() };
    let old = pb::Entry { log_id: Some(id.into()), payload: Some(pb::entry::Payload::Proposal(proposal.clone().into())) };
    let read = wire::entry(old.clone()).unwrap();
    assert_eq!(read, Entry::new_normal(id, Bundle::new([proposal])));
    assert_eq!(pb::Entry::from(read), old, "nor does it change when written again");
}

#[tokio::test]
async fn the_end_of_a_log_is_found_wherever_it_begins_and_ends() {
    for (first, last) in [(0, 0), (0, 1), (0, 6), (3, 3), (5, 100), (64, 127), (1000, 2000)] {
        let disk = Arc::new(Memory::new());
        let mut log = LogStore::open(disk.clone(), |_| {}).unwrap();
        log.blocking_append((0..=last).map(|index| entry(1, index, 1))).await.unwrap();
        if first > 0 {
            log.purge(entry(1, first - 1, 1).log_id).await.unwrap();
        }
        drop(log);
        let state = LogStore::open(disk, |_| {}).unwrap().get_log_state().await.unwrap();
        assert_eq!(state.last_log_id.map(|id| id.index), Some(last), "from {first}");
    }
}

#[tokio::test]
async fn a_read_for_replication_stops_at_its_size_but_never_is_empty() {
    let mut log = LogStore::open(Arc::new(Memory::new()), |_| {}).unwrap();
    let sizes = [100, 700 << 10, 700 << 10, 3 << 20, 1];
    log.blocking_append((0u64..).zip(sizes).map(|(index, size)| entry(1, index, size))).await.unwrap();
    let mut read = async |start| indexes(&log.limited_get_log_entries(start, 5).await.unwrap());
    assert_eq!(read(0).await, [0, 1]);
    assert_eq!(read(3).await, [3]);
    assert_eq!(read(4).await, [4]);
}

#[tokio::test]
async fn truncated_entries_count_as_hardened_no_more() {
    let mut log = LogStore::open(Arc::new(Memory::new()), |_| {}).unwrap();
    log.blocking_append((0..10).map(|index| entry(1, index, 1))).await.unwrap();
    log.truncate_after(Some(entry(1, 4, 1).log_id)).await.unwrap();
    assert_eq!(*log.hardened().borrow(), Ok(5));
    log.blocking_append([entry(2, 5, 1)]).await.unwrap();
    assert_eq!(*log.hardened().borrow(), Ok(6));
    assert_eq!(indexes(&log.try_get_log_entries(4..).await.unwrap()), [4, 5]);
}

#[tokio::test]
async fn a_directory_of_nobody_is_claimed_only_by_a_listed_member() {
    let directory = tempfile::tempdir().unwrap();
    let raft = directory.path().join("raft");
    drop(Rocks::open_raft(&raft, &Shared::default()).unwrap());
    let options = Options {
        directory: directory.path().into(),
        identity: Err(membership::Error::NotListed("x".into())),
        initial: Default::default(),
        disks: Arc::new(disk::open),
        force_new_cluster: false,
        dial: Arc::new(PeerTls::default()),
        limits: Limits { strict: true, learners: 1 },
        heartbeat: Duration::from_millis(100),
        election_timeout: Duration::from_secs(1),
        snapshot_count: 100,
        first_proposal: 1,
        clock: Arc::new(Default::default),
        metrics: Metrics::new(),
        slow_apply: Duration::MAX,
    };
    let refused = RaftNode::start(options).await.err().unwrap();
    assert!(refused.to_string().contains("couldn't find local name"), "{refused}");
}
