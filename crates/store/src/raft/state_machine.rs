//! Applies committed entries to the member's state, once they are on its own disk.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt};
use openraft::{
    OptionalSend,
    async_runtime::watch::{Watch, WatchSender},
    storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine},
    type_config::alias::{SnapshotOf, WatchOf},
};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prost::Message;
use tokio::sync::watch;

use super::{
    flusher::Hardened,
    log_store::io_error,
    proposals::Proposals,
    removed::Removed,
    snapshot::{Files, Snapshots},
    types::{AppliedReceiver, AppliedSender, Entry, EntryPayload, LogId, SnapshotMeta, StoredMembership, TypeConfig},
    wire::{self, pb},
};
use crate::{
    apply::member,
    command::{Command, Outcome},
    disk::{Batch, Column, Home, Read, columns::meta},
    metrics::Metrics,
    state::State,
};

/// Entries applied in one batch at most; each may hold a few hundred proposals.
const BATCH: usize = 32;
/// Requests of a slow batch told of in the log.
const NAMED: usize = 8;

/// Where a state stands in the log.
#[derive(Clone, Default)]
pub(crate) struct Position {
    pub(crate) applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

impl Position {
    pub(crate) fn read(database: &(impl Read + ?Sized)) -> io::Result<Self> {
        let get = |name| database.get(Column::Meta, name).map_err(io_error);
        let applied = get(meta::APPLIED)?.map(|bytes| wire::decode("the applied position", bytes)).transpose()?;
        let membership = get(meta::MEMBERSHIP)?.map(|bytes| wire::decode::<pb::StoredMembership>("the membership", bytes));
        let membership = membership.transpose()?.map(StoredMembership::try_from).transpose()?;
        Ok(Self { applied: wire::log_id(applied)?, membership: membership.unwrap_or_default() })
    }
}

/// The state machine of a member.
pub(crate) struct StateMachine {
    state: Arc<State>,
    home: Arc<dyn Home>,
    snapshots: Snapshots,
    latest: Arc<Mutex<Option<(SnapshotMeta, Files)>>>,
    proposals: Arc<Proposals>,
    hardened: watch::Receiver<Hardened>,
    /// First index that is not applied yet.
    applied: AppliedSender,
    removed: Removed,
    metrics: Metrics,
    /// Applying a batch should not take longer.
    slow: Duration,
    position: Position,
}

/// What a [`StateMachine`] works with.
pub(crate) struct Parts {
    pub(crate) state: Arc<State>,
    pub(crate) home: Arc<dyn Home>,
    pub(crate) snapshots: Snapshots,
    pub(crate) proposals: Arc<Proposals>,
    pub(crate) hardened: watch::Receiver<Hardened>,
    pub(crate) removed: Removed,
    pub(crate) metrics: Metrics,
    pub(crate) slow: Duration,
}

impl StateMachine {
    /// Goes on where the database stands.
    pub(crate) fn open(parts: Parts) -> io::Result<Self> {
        let position = Position::read(&*parts.home.current())?;
        let (applied, _) = WatchOf::<TypeConfig>::channel(next(position.applied));
        let Parts { state, home, snapshots, proposals, hardened, removed, metrics, slow } = parts;
        removed.look(&*home.current()).map_err(io_error)?;
        Ok(Self { state, home, snapshots, latest: Arc::default(), proposals, hardened, applied, removed, metrics, slow, position })
    }

    /// Follows the first index that is not applied yet.
    pub(crate) fn applied(&self) -> AppliedReceiver {
        self.applied.subscribe()
    }

    /// Returns once entries up to `index` are on this member's disk: what it applies it can never forget.
    async fn wait_hardened(&mut self, index: u64) -> io::Result<()> {
        let hardened = self.hardened.wait_for(|next| !matches!(next, Ok(next) if *next <= index)).await;
        match &*hardened.map_err(|_| io::Error::other("the raft log is closed"))? {
            Ok(_) => Ok(()),
            Err(cause) => Err(io::Error::other(cause.clone())),
        }
    }

    /// Applies entries; the outcomes of all their proposals, in order. On an error nothing was applied.
    fn apply_batch(&mut self, entries: &[Entry]) -> io::Result<Vec<Outcome>> {
        let (mut commands, mut notes, mut changed) = (Vec::with_capacity(entries.len()), Batch::default(), None);
        for entry in entries {
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(bundle) => {
                    for proposal in bundle.0.iter() {
                        let command = Command::from_bytes(proposal.command.clone());
                        let command = command.map_err(|e| io::Error::other(format!("log entry {}: {e}", entry.log_id)))?;
                        commands.push(command.in_term(entry.log_id.leader_id.term));
                    }
                }
                EntryPayload::Membership(membership) => {
                    let before = changed.as_ref().unwrap_or(&self.position.membership);
                    let gone = before.nodes().filter(|(id, _)| membership.get_node(id).is_none());
                    gone.for_each(|(id, _)| member::remove(&mut notes, *id));
                    let stored = StoredMembership::new(Some(entry.log_id), membership.clone());
                    notes.put(Column::Meta, meta::MEMBERSHIP, pb::StoredMembership::from(&stored).encode_to_vec());
                    changed = Some(stored);
                }
            }
        }
        let applied = entries.last().map(|entry| entry.log_id).or(self.position.applied);
        notes.put(Column::Meta, meta::APPLIED, applied.map(pb::LogId::from).unwrap_or_default().encode_to_vec());
        let start = Instant::now();
        let outcomes = self.state.apply(&commands, notes).map_err(io_error)?;
        self.note(&commands, &outcomes, start.elapsed());
        self.position.applied = applied;
        if let Some(membership) = changed {
            self.position.membership = membership;
            self.removed.look(&*self.home.current()).map_err(io_error)?;
        }
        Ok(outcomes)
    }

    fn note(&self, commands: &[Command], outcomes: &[Outcome], took: Duration) {
        self.metrics.backend_commit.observe(took.as_secs_f64());
        self.metrics.applied(commands, outcomes, took);
        if took > self.slow {
            self.metrics.slow_applies.inc();
            let request = commands.iter().map(Command::brief).take(NAMED).collect::<Vec<_>>().join(", ");
            tracing::warn!(?took, expected_duration = ?self.slow, requests = commands.len(), request, "apply request took too long");
        }
    }

    /// Tells whoever waits here for an entry that was applied; takes the outcomes of its proposals.
    fn tell(&self, entry: &Entry, outcomes: &mut impl Iterator<Item = Outcome>, responder: Option<ApplyResponder<TypeConfig>>) {
        self.proposals.leadership_passed_to(entry.log_id.leader_id);
        if let EntryPayload::Normal(bundle) = &entry.payload {
            self.proposals.applied(bundle.0.iter().map(|proposal| proposal.id).zip(outcomes));
        }
        if let Some(responder) = responder {
            responder.send(());
        }
    }
}

fn next(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Files;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.position.applied, self.position.membership.clone()))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut batches = entries.ready_chunks(BATCH);
        while let Some(batch) = batches.next().await {
            let batch = batch.into_iter().collect::<io::Result<Vec<_>>>()?;
            let (entries, responders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let Some(last) = entries.last().map(|entry| entry.log_id.index) else { continue };
            self.wait_hardened(last).await?;
            let mut outcomes = self.apply_batch(&entries)?.into_iter();
            self.applied.send_if_different(last + 1);
            for (entry, responder) in entries.iter().zip(responders) {
                self.tell(entry, &mut outcomes, responder);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { home: self.home.clone(), snapshots: self.snapshots.clone(), latest: self.latest.clone(), metrics: self.metrics.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Files) -> io::Result<()> {
        let _applying = Applying::new(&self.metrics.snapshot_applying);
        let (home, files) = (self.home.clone(), snapshot.clone());
        let replaced = home.current().offload().run(move || home.replace(files.path())).await;
        replaced?.map_err(io_error)?;
        let database = self.home.current();
        let position = Position::read(&*database)?;
        if position.applied != meta.last_log_id {
            let text = format!("a snapshot of {:?} holds the state of {:?}", meta.last_log_id, position.applied);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.removed.look(&*database).map_err(io_error)?;
        self.state.replace(database).map_err(io_error)?;
        self.position = position;
        self.applied.send_if_different(next(self.position.applied));
        self.proposals.skipped_by_snapshot();
        // The files moved away with the database; a fresh copy serves whoever asks for a snapshot now.
        let snapshot = self.get_snapshot_builder().await.build_snapshot().await?;
        tracing::info!(position = ?snapshot.meta.last_log_id, "installed a snapshot");
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<TypeConfig, Files>>> {
        let latest = self.latest.lock().clone();
        Ok(latest.map(|(meta, snapshot)| openraft::Snapshot { meta, snapshot }))
    }
}

/// Shows for as long as it lives that a snapshot is being applied.
struct Applying(Gauge);

impl Applying {
    fn new(gauge: &Gauge) -> Self {
        gauge.set(1);
        Self(gauge.clone())
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

/// Takes a snapshot beside the running state machine.
pub(crate) struct Builder {
    home: Arc<dyn Home>,
    snapshots: Snapshots,
    latest: Arc<Mutex<Option<(SnapshotMeta, Files)>>>,
    metrics: Metrics,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = Files;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, Files>> {
        let (home, files, start) = (self.home.clone(), self.snapshots.place(), Instant::now());
        let build = move || -> io::Result<_> {
            home.checkpoint(files.path()).map_err(io_error)?;
            // Entries go on being applied meanwhile: only the copy knows where it stands.
            let copy = home.read_copy(files.path()).map_err(io_error)?;
            Ok((Position::read(&*copy)?, files))
        };
        let (position, files) = self.home.current().offload().run(build).await??;
        let meta = SnapshotMeta { last_log_id: position.applied, last_membership: position.membership };
        *self.latest.lock() = Some((meta.clone(), files.clone()));
        self.metrics.snapshot_fsync.observe(start.elapsed().as_secs_f64());
        tracing::info!(position = ?meta.last_log_id, "took a snapshot");
        Ok(openraft::Snapshot { meta, snapshot: files })
    }
}
