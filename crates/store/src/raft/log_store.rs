//! The raft log, the vote and the identity of a member, on the `raft/` database.

use std::{
    fmt::Debug,
    io,
    ops::{Bound, RangeBounds},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use openraft::{
    LogState, OptionalSend,
    entry::RaftEntry,
    storage::{IOFlushed, RaftLogReader, RaftLogStorage},
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;

use super::{
    flusher::{Flusher, Hardened},
    membership::Identity,
    tail::Tail,
    types::{Entry, LogId, TypeConfig, Vote},
    wire::{self, pb},
};
use crate::disk::{self, Batch, Column, Database, columns::raft_meta};

/// Entries of one replication message, in encoded bytes; a larger entry goes alone.
const READ_LIMIT: usize = 1 << 20;
/// Encoded bytes of the latest entries that are kept in memory.
const TAIL: usize = 4 << 20;

/// The log store; clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    database: Arc<dyn Database>,
    flusher: Flusher,
    state: Arc<Mutex<State>>,
    tail: Arc<Mutex<Tail>>,
    appended: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Default)]
struct State {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    last: Option<LogId>,
}

impl LogStore {
    /// Reads what is there and starts the task that syncs.
    pub(crate) fn open(database: Arc<dyn Database>, hardened: impl Fn(std::time::Duration) + Send + Sync + 'static) -> io::Result<Self> {
        let state = State {
            vote: read::<pb::Vote>(&*database, raft_meta::VOTE)?.map(Vote::try_from).transpose()?,
            committed: wire::log_id(read(&*database, raft_meta::COMMITTED)?)?,
            purged: wire::log_id(read(&*database, raft_meta::PURGED)?)?,
            last: None,
        };
        let last = last_entry(&*database, next(state.purged))?.or(state.purged);
        let flusher = Flusher::spawn(database.clone(), next(last), hardened);
        let state = Arc::new(Mutex::new(State { last, ..state }));
        let tail = Arc::new(Mutex::new(Tail::new(TAIL)));
        Ok(Self { database, flusher, state, tail, appended: Arc::default() })
    }

    /// Entries below this index are durable here.
    pub(crate) fn hardened(&self) -> watch::Receiver<Hardened> {
        self.flusher.hardened()
    }

    /// Encoded bytes appended since [`LogStore::open`].
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Who this data directory belongs to; none when it is new.
    pub(crate) fn identity(&self) -> io::Result<Option<Identity>> {
        let stored: Option<pb::Identity> = read(&*self.database, raft_meta::IDENTITY)?;
        Ok(stored.map(|id| Identity { cluster_id: id.cluster_id, member_id: id.member_id }))
    }

    /// Claims a new data directory; durable on return.
    pub(crate) async fn save_identity(&self, identity: &Identity) -> io::Result<()> {
        let stored = pb::Identity { cluster_id: identity.cluster_id, member_id: identity.member_id };
        let mut batch = Batch::default();
        batch.put(Column::RaftMeta, raft_meta::IDENTITY, stored.encode_to_vec());
        self.database.write(batch).map_err(io_error)?;
        self.flusher.sync().await
    }

    fn entries(&self, range: impl RangeBounds<u64>, limit: usize) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index.checked_add(1),
            Bound::Excluded(index) => Some(*index),
            Bound::Unbounded => None,
        };
        if let Some(entries) = self.tail.lock().read(start, end, limit) {
            return Ok(entries);
        }
        let end = end.map(u64::to_be_bytes);
        let end = end.as_ref().map(|end| &end[..]);
        let mut cursor = self.database.scan(Column::RaftLog, &start.to_be_bytes(), end).map_err(io_error)?;
        let (mut entries, mut size) = (Vec::new(), 0);
        while let Some((_, value)) = cursor.row() {
            size += value.len();
            if !entries.is_empty() && size > limit {
                break;
            }
            let entry = entry(value)?;
            check_gapless(entries.last(), &entry)?;
            entries.push(entry);
            cursor.advance().map_err(io_error)?;
        }
        Ok(entries)
    }
}

/// The disk's error with its whole cause, as openraft carries it to the surface.
pub(crate) fn io_error(error: disk::Error) -> io::Error {
    use std::error::Error;
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    io::Error::other(text)
}

pub(super) fn read<T: Message + Default>(database: &dyn Database, name: &'static [u8]) -> io::Result<Option<T>> {
    let bytes = database.get(Column::RaftMeta, name).map_err(io_error)?;
    Ok(bytes.map(|bytes| wire::decode("a record of the raft log", bytes)).transpose()?)
}

pub(super) fn entry(bytes: &[u8]) -> io::Result<Entry> {
    let entry: pb::Entry = wire::decode("a log entry", bytes::Bytes::copy_from_slice(bytes))?;
    Ok(wire::entry(entry)?)
}

fn check_gapless(previous: Option<&Entry>, entry: &Entry) -> io::Result<()> {
    match previous {
        Some(previous) if previous.index() + 1 != entry.index() => {
            let text = format!("the raft log has a gap between {} and {}", previous.index(), entry.index());
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
        _ => Ok(()),
    }
}

fn next(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

/// The last entry at or after `first`. The log has no gaps, so its end is found by doubling and halving.
pub(super) fn last_entry(database: &dyn Database, first: u64) -> io::Result<Option<LogId>> {
    let get = |index: u64| database.get(Column::RaftLog, &index.to_be_bytes()).map_err(io_error);
    if get(first)?.is_none() {
        return Ok(None);
    }
    let (mut present, mut step) = (first, 1);
    while get(present + step)?.is_some() {
        present += step;
        step *= 2;
    }
    while step > 1 {
        step /= 2;
        if get(present + step)?.is_some() {
            present += step;
        }
    }
    let last = get(present)?.map(|bytes| entry(&bytes)).transpose()?;
    Ok(last.map(|entry| entry.log_id))
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(&mut self, range: RB) -> io::Result<Vec<Entry>> {
        self.entries(range, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.entries(start..end, READ_LIMIT)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.state.lock().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let state = self.state.lock();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.put(Column::RaftMeta, raft_meta::VOTE, pb::Vote::from(*vote).encode_to_vec());
        self.database.write(batch).map_err(io_error)?;
        self.flusher.sync().await?;
        self.state.lock().vote = Some(*vote);
        Ok(())
    }

    // Neither written at once nor synced: the log's next sync takes it along, and a lost one costs only a later start of
    // serving.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let mut batch = Batch::default();
        match committed {
            Some(id) => batch.put(Column::RaftMeta, raft_meta::COMMITTED, pb::LogId::from(id).encode_to_vec()),
            None => batch.delete(Column::RaftMeta, raft_meta::COMMITTED),
        }
        self.state.lock().committed = committed;
        self.flusher.note(batch).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.state.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (mut batch, mut appended, mut size) = (Batch::default(), Vec::new(), 0);
        for entry in entries {
            let bytes = pb::Entry::from(entry.clone()).encode_to_vec();
            size += bytes.len();
            let (key, length) = (entry.index().to_be_bytes().to_vec(), bytes.len());
            batch.put(Column::RaftLog, key, bytes);
            appended.push((entry, length));
        }
        self.database.write(batch).map_err(io_error)?;
        self.appended.fetch_add(size as u64, Ordering::Relaxed);
        let upto = {
            let mut state = self.state.lock();
            state.last = appended.last().map(|(entry, _)| entry.log_id).or(state.last);
            next(state.last)
        };
        {
            let mut tail = self.tail.lock();
            appended.into_iter().for_each(|(entry, size)| tail.push(entry, size));
        }
        self.flusher.harden(upto, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let mut batch = Batch::default();
        let end = u64::MAX.to_be_bytes().to_vec();
        batch.delete_range(Column::RaftLog, next(last).to_be_bytes().to_vec(), end);
        self.database.write(batch).map_err(io_error)?;
        self.tail.lock().truncate(next(last));
        let upto = {
            let mut state = self.state.lock();
            state.last = state.last.min(last).max(state.purged);
            next(state.last)
        };
        self.flusher.rewind(upto).await
    }

    // Position and deletion are one batch; unsynced, since a lost purge only leaves entries to purge again.
    async fn purge(&mut self, id: LogId) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.put(Column::RaftMeta, raft_meta::PURGED, pb::LogId::from(id).encode_to_vec());
        let (start, end) = (0u64.to_be_bytes().to_vec(), (id.index + 1).to_be_bytes().to_vec());
        batch.delete_range(Column::RaftLog, start, end);
        self.database.write(batch).map_err(io_error)?;
        self.tail.lock().purge(id.index);
        let mut state = self.state.lock();
        state.purged = Some(id);
        state.last = state.last.max(Some(id));
        Ok(())
    }
}
