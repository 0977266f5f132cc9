//! A member's own replica: the database, and what lives on top of it in memory.

use crate::{
    apply::{self, LeaseChange, TokenChange, View, lease, view::Standing},
    auth::{Policy, tokens::Tokens},
    command::{Command, Outcome},
    disk::{self, Batch, Database, Read},
    lease::{Lessor, lessor::Time},
    mvcc::{Event, Revisions, Segments, compaction},
    watch::Hub,
};
use parking_lot::{Mutex, RwLock};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};
use tokio::sync::{Notify, watch};

/// A monotonic clock.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Bytes of the latest changes kept in memory for watchers.
const RING_BYTES: usize = 16 << 20;

/// What a batch of commands changed, for those who want to know.
#[derive(Default)]
struct News {
    published: Vec<(i64, Vec<Event>)>,
    leases: Vec<LeaseChange>,
    tokens: Vec<TokenChange>,
    compacted: Option<i64>,
}

/// The replica.
pub struct State {
    database: RwLock<Arc<dyn Database>>,
    /// Held while a batch is applied or the database is replaced: where the database stands, and how many keys it has.
    applying: Mutex<(Standing, Segments)>,
    /// Live keys.
    keys: AtomicI64,
    /// Views of the database that are open.
    reading: AtomicI64,
    hub: Arc<Hub>,
    lessor: Mutex<Lessor>,
    lessor_changed: Notify,
    policy: RwLock<Arc<Policy>>,
    tokens: Mutex<Tokens>,
    clock: Clock,
    compacted: Notify,
    scrubbed: watch::Sender<i64>,
}

impl State {
    /// Builds on a database as it is found.
    pub fn open(database: Arc<dyn Database>, clock: Clock) -> disk::Result<Arc<Self>> {
        let standing = Standing::read(&*database)?;
        let lessor = Lessor::new(lease::list(&*database)?);
        let scrubbed = compaction::scrubbed(&*database)?;
        let segments = Segments::open(&*database)?;
        let (revisions, policy) = (standing.revisions, standing.policy.clone());
        let state = State {
            database: RwLock::new(database),
            keys: AtomicI64::new(segments.total()),
            applying: Mutex::new((standing, segments)),
            reading: AtomicI64::new(0),
            hub: Hub::new(revisions, RING_BYTES),
            lessor: Mutex::new(lessor),
            lessor_changed: Notify::new(),
            policy: RwLock::new(policy),
            tokens: Mutex::default(),
            clock,
            compacted: Notify::new(),
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
        let (standing, segments) = &mut *applying;
        let database = self.database();
        let mut view = View::at(&*database, standing.clone(), std::mem::take(segments));
        let compacted = view.revisions().compacted;
        let mut outcomes = Vec::with_capacity(commands.len());
        let mut news = News::default();
        for command in commands {
            let applied = apply::apply(&mut view, command)?;
            if !applied.events.is_empty() {
                news.published.push((applied.outcome.revision, applied.events));
            }
            news.leases.extend(applied.leases);
            news.tokens.extend(applied.tokens);
            outcomes.push(applied.outcome);
        }
        news.compacted = Some(view.revisions().compacted).filter(|now| *now != compacted);
        let standing = view.standing();
        // Before the data: whoever reads what was written after a right was taken away finds that out too.
        if !Arc::ptr_eq(&standing.policy, &applying.0.policy) {
            *self.policy.write() = standing.policy.clone();
        }
        let (mut batch, segments) = view.into_parts();
        batch.writes.extend(notes.writes);
        database.write(batch)?;
        self.keys.store(segments.total(), Relaxed);
        *applying = (standing, segments);
        self.announce(news);
        Ok(outcomes)
    }

    fn announce(&self, news: News) {
        if !news.leases.is_empty() {
            let now = (self.clock)();
            let mut lessor = self.lessor.lock();
            news.leases.iter().for_each(|change| lessor.changed(*change, now));
            self.lessor_changed.notify_one();
        }
        if !news.tokens.is_empty() {
            self.with_tokens(|tokens, now| news.tokens.into_iter().for_each(|change| tokens.changed(change, now)));
        }
        if !news.published.is_empty() {
            self.hub.publish(news.published);
        }
        if let Some(revision) = news.compacted {
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
        let segments = Segments::open(&*database)?;
        self.keys.store(segments.total(), Relaxed);
        *self.policy.write() = standing.policy.clone();
        *self.database.write() = database;
        *self.lessor.lock() = lessor;
        // Some may have been withdrawn meanwhile.
        self.with_tokens(|tokens, now| tokens.changed(TokenChange::AllWithdrawn, now));
        self.hub.reset(standing.revisions);
        *applying = (standing, segments);
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
        let _open = Open::new(&self.reading);
        let snapshot = database.snapshot();
        let revisions = Revisions::read(&*snapshot)?;
        Ok(read(&*snapshot, revisions))
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.hub.revision()
    }

    /// Number of live keys.
    pub fn keys(&self) -> i64 {
        self.keys.load(Relaxed)
    }

    /// Number of open views.
    pub fn reading(&self) -> i64 {
        self.reading.load(Relaxed)
    }

    /// Where watchers meet changes.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Who may do what, as of now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().clone()
    }

    /// Works on the tokens given out with the time it is.
    pub fn with_tokens<T>(&self, work: impl FnOnce(&mut Tokens, Time) -> T) -> T {
        let now = (self.clock)();
        work(&mut self.tokens.lock(), now)
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

    /// Begins to count the time of leases: this member leads in this term.
    pub fn promote(&self, term: u64, grace: Time) {
        self.with_lessor(|lessor, now| lessor.promote(term, now, grace));
        self.lessor_changed.notify_one();
    }

    /// Stops counting the time of leases.
    pub fn demote(&self) {
        self.with_lessor(|lessor, _| lessor.demote());
    }

    /// Removes one bounded step of what compaction gave up. Blocks on the disk.
    pub fn scrub(&self, rows: usize) -> disk::Result<compaction::Step> {
        let database = self.database();
        let step = compaction::step(&*database, rows)?;
        self.scrubbed.send_replace(compaction::scrubbed(&*database)?);
        Ok(step)
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

/// Counts for as long as it lives.
struct Open<'a>(&'a AtomicI64);

impl<'a> Open<'a> {
    fn new(count: &'a AtomicI64) -> Self {
        count.fetch_add(1, Relaxed);
        Open(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
