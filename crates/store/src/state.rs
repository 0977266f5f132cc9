//! A member's own replica: the database, and what lives on top of it in memory.

use crate::{
    apply::{self, View, lease, view::Standing},
    command::{Command, Outcome},
    disk::{self, Batch, Database, Read},
    lease::{Lessor, lessor::Time},
    mvcc::{Event, Revisions, compaction},
    watch::Hub,
};
use parking_lot::{Mutex, RwLock};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::sync::{Notify, watch};

/// A monotonic clock.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Bytes of the latest changes kept in memory for watchers.
const RING_BYTES: usize = 16 << 20;

/// The replica.
pub struct State {
    database: RwLock<Arc<dyn Database>>,
    /// Held while a batch is applied or the database is replaced: where the database stands.
    applying: Mutex<Standing>,
    hub: Arc<Hub>,
    lessor: Mutex<Lessor>,
    lessor_changed: Notify,
    clock: Clock,
    compacted: Notify,
    /// An alarm says that some member's data is corrupt.
    corrupt: AtomicBool,
    scrubbed: watch::Sender<i64>,
}

impl State {
    /// Builds on a database as it is found.
    pub fn open(database: Arc<dyn Database>, clock: Clock) -> disk::Result<Arc<Self>> {
        let standing = Standing::read(&*database)?;
        let lessor = Lessor::new(lease::list(&*database)?);
        let scrubbed = compaction::scrubbed(&*database)?;
        let (revisions, corrupt) = (standing.revisions, standing.corrupt());
        let state = State {
            database: RwLock::new(database),
            applying: Mutex::new(standing),
            hub: Hub::new(revisions, RING_BYTES),
            lessor: Mutex::new(lessor),
            lessor_changed: Notify::new(),
            clock,
            compacted: Notify::new(),
            corrupt: AtomicBool::new(corrupt),
            scrubbed: watch::Sender::new(scrubbed),
        };
        state.compacted.notify_one();
        Ok(Arc::new(state))
    }

    /// Applies commands in order and writes all they change, together with `notes`, as one batch.
    ///
    /// Blocks on the disk. On an error nothing was applied, and the member must stop.
    pub fn apply(&self, commands: &[Command], notes: Batch) -> disk::Result<Vec<Outcome>> {
        let mut applying = self.applying.lock();
        let database = self.database();
        let mut view = View::at(&*database, applying.clone());
        let compacted = view.revisions().compacted;
        let mut outcomes = Vec::with_capacity(commands.len());
        let (mut published, mut leases) = (Vec::new(), Vec::new());
        for command in commands {
            let applied = apply::apply(&mut view, command)?;
            if !applied.events.is_empty() {
                published.push((applied.outcome.revision, applied.events));
            }
            leases.extend(applied.leases);
            outcomes.push(applied.outcome);
        }
        let compacts = Some(view.revisions().compacted).filter(|now| *now != compacted);
        let standing = view.standing();
        let mut batch = view.into_batch();
        batch.writes.extend(notes.writes);
        database.write(batch)?;
        self.corrupt.store(standing.corrupt(), Relaxed);
        *applying = standing;
        self.announce(published, &leases, compacts);
        Ok(outcomes)
    }

    fn announce(&self, published: Vec<(i64, Vec<Event>)>, leases: &[apply::LeaseChange], compacts: Option<i64>) {
        if !leases.is_empty() {
            let now = (self.clock)();
            let mut lessor = self.lessor.lock();
            leases.iter().for_each(|change| lessor.changed(*change, now));
            self.lessor_changed.notify_one();
        }
        if !published.is_empty() {
            self.hub.publish(published);
        }
        if let Some(revision) = compacts {
            self.hub.compacted(revision);
            self.compacted.notify_one();
        }
    }

    /// Goes on with another database (an installed snapshot); watchers catch up from its history.
    pub fn replace(&self, database: Arc<dyn Database>) -> disk::Result<()> {
        let mut applying = self.applying.lock();
        let standing = Standing::read(&*database)?;
        let lessor = Lessor::new(lease::list(&*database)?);
        self.scrubbed.send_replace(compaction::scrubbed(&*database)?);
        self.corrupt.store(standing.corrupt(), Relaxed);
        *self.database.write() = database;
        *self.lessor.lock() = lessor;
        self.hub.reset(standing.revisions);
        *applying = standing;
        self.compacted.notify_one();
        Ok(())
    }

    /// The database as of now.
    pub fn database(&self) -> Arc<dyn Database> {
        self.database.read().clone()
    }

    /// Reads from a consistent view, which says itself where it stands. Blocks on the disk.
    pub fn read<T>(&self, read: impl FnOnce(&dyn Read, Revisions) -> T) -> disk::Result<T> {
        let database = self.database();
        let snapshot = database.snapshot();
        let revisions = Revisions::read(&*snapshot)?;
        Ok(read(&*snapshot, revisions))
    }

    /// Some member's data is corrupt: nothing is to be trusted, reads neither.
    pub fn corrupt(&self) -> bool {
        self.corrupt.load(Relaxed)
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.hub.revision()
    }

    /// Where watchers meet changes.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Works on the lessor with the time it is.
    pub fn with_lessor<T>(&self, work: impl FnOnce(&mut Lessor, Time) -> T) -> T {
        let now = (self.clock)();
        work(&mut self.lessor.lock(), now)
    }

    /// Returns after leases have been granted or revoked, or leadership has changed.
    pub async fn lessor_changed(&self) {
        self.lessor_changed.notified().await;
    }

    /// Begins to count the time of leases: this member leads now.
    pub fn promote(&self, grace: Time) {
        self.with_lessor(|lessor, now| lessor.promote(now, grace));
        self.lessor_changed.notify_one();
    }

    /// Stops counting the time of leases.
    pub fn demote(&self) {
        self.with_lessor(|lessor, _| lessor.demote());
    }

    /// Removes one bounded step of what compaction gave up; true when nothing is left. Blocks on the disk.
    pub fn scrub(&self, rows: usize) -> disk::Result<bool> {
        let database = self.database();
        let done = compaction::step(&*database, rows)?;
        self.scrubbed.send_replace(compaction::scrubbed(&*database)?);
        Ok(done)
    }

    /// Returns once there may be something to [`State::scrub`].
    pub async fn compacted(&self) {
        self.compacted.notified().await;
    }

    /// Returns once everything compaction gave up below `revision` is gone from disk.
    pub async fn scrubbed(&self, revision: i64) {
        let mut scrubbed = self.scrubbed.subscribe();
        // The sender lives as long as self.
        let _ = scrubbed.wait_for(|done| *done >= revision).await;
    }
}
