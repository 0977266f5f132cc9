//! Where changes meet watchers.
//!
//! The hub keeps the latest revisions once, for all, and of each watcher nothing but the first revision it has not
//! been given yet. Publishing marks the watchers concerned and wakes their sessions; it never waits for one. A
//! session (one client stream) reads on its own time: from the ring, or from history when the ring has moved on.

use super::{
    Watch,
    index::{Id, Index},
    ring::{Revision, Ring},
};
use crate::mvcc::{Event, Revisions};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use tokio::sync::Notify;

/// Revisions taken from the ring at once.
const READ_LIMIT: usize = 256;

/// The meeting place.
#[derive(Debug)]
pub struct Hub(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    revision: i64,
    compacted: i64,
    ring: Ring,
    ring_bytes: usize,
    index: Index,
    watchers: BTreeMap<Id, Watcher>,
    sessions: BTreeMap<u64, Queue>,
    next_id: Id,
}

#[derive(Debug)]
struct Watcher {
    watch: Watch,
    session: u64,
    /// First revision it may not have been given; none when it has been given everything.
    pending: Option<i64>,
    /// It begins in the past and has not been given anything.
    fresh: bool,
}

impl Watcher {
    /// It has been given everything up to a revision, and that is not before where it begins.
    fn is_synced(&self, revision: i64) -> bool {
        self.pending.is_none() && self.watch.start <= revision + 1
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// Watchers with something pending, each once.
    ready: VecDeque<Id>,
    /// All its watchers.
    members: BTreeSet<Id>,
    wake: Arc<Notify>,
}

/// What a watcher is to do next.
#[derive(Debug)]
pub enum Next {
    /// Nothing is pending.
    Idle,
    /// It asked for history that is compacted up to this revision: cancel it.
    Compacted(i64),
    /// These revisions, whole; what it does not want is among them.
    Revisions(Vec<Arc<Revision>>),
    /// Read `from..=to` from history, then call [`Session::resume`].
    History {
        /// First revision.
        from: i64,
        /// Last revision.
        to: i64,
    },
}

impl Hub {
    /// A hub for a state, keeping about `ring_bytes` of the latest changes.
    pub fn new(Revisions { current, compacted }: Revisions, ring_bytes: usize) -> Arc<Self> {
        Arc::new(Hub(Mutex::new(Inner {
            revision: current,
            compacted,
            ring: Ring::new(current, ring_bytes),
            ring_bytes,
            index: Index::default(),
            watchers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            next_id: 0,
        })))
    }

    /// Announces revisions that are readable from the database already, in order.
    pub fn publish(&self, revisions: impl IntoIterator<Item = (i64, Vec<Event>)>) {
        let inner = &mut *self.0.lock();
        for (revision, events) in revisions {
            inner.revision = revision;
            let published = Arc::new(Revision { revision, events });
            let mut concerned = Vec::new();
            for event in &published.events {
                inner.index.matching(&event.kv.key, |id| concerned.push((id, event)));
            }
            for (id, event) in concerned {
                inner.mark(id, revision, |watch| watch.wants_event(event));
            }
            inner.ring.push(published);
        }
    }

    /// History before `revision` was given up. Whoever begins there from now on is told so.
    pub fn compacted(&self, revision: i64) {
        self.0.lock().compacted = revision;
    }

    /// The state jumped (a snapshot was installed): everybody catches up from history.
    pub fn reset(&self, Revisions { current: revision, compacted }: Revisions) {
        let inner = &mut *self.0.lock();
        let missed = inner.revision + 1;
        (inner.revision, inner.compacted) = (revision, compacted);
        inner.ring = Ring::new(revision, inner.ring_bytes);
        let ids: Vec<Id> = inner.watchers.keys().copied().collect();
        ids.into_iter().filter(|_| missed <= revision).for_each(|id| inner.mark(id, missed, |_| true));
    }

    /// The newest revision announced.
    pub fn revision(&self) -> i64 {
        self.0.lock().revision
    }

    /// Number of watchers, and how many of them have something pending.
    pub fn watchers(&self) -> (usize, usize) {
        let inner = self.0.lock();
        (inner.watchers.len(), inner.watchers.values().filter(|watcher| watcher.pending.is_some()).count())
    }

    /// Opens a session; dropping it ends its watchers.
    pub fn session(self: &Arc<Self>) -> Session {
        let inner = &mut *self.0.lock();
        inner.next_id += 1;
        let queue = Queue::default();
        let wake = queue.wake.clone();
        inner.sessions.insert(inner.next_id, queue);
        Session { hub: self.clone(), id: inner.next_id, wake }
    }
}

impl Inner {
    fn mark(&mut self, id: Id, revision: i64, wants: impl FnOnce(&Watch) -> bool) {
        let Some(watcher) = self.watchers.get_mut(&id) else { return };
        if watcher.pending.is_none() && wants(&watcher.watch) {
            let from = revision.max(watcher.watch.start);
            if from <= self.revision {
                watcher.pending = Some(from);
                let session = watcher.session;
                self.enqueue(session, id);
            }
        }
    }

    fn enqueue(&mut self, session: u64, id: Id) {
        if let Some(queue) = self.sessions.get_mut(&session) {
            queue.ready.push_back(id);
            queue.wake.notify_one();
        }
    }

    fn remove(&mut self, id: Id) {
        if let Some(watcher) = self.watchers.remove(&id) {
            self.index.remove(&watcher.watch.range, id);
            if let Some(queue) = self.sessions.get_mut(&watcher.session) {
                queue.members.remove(&id);
            }
        }
    }
}

/// The watchers of one client stream.
#[derive(Debug)]
pub struct Session {
    hub: Arc<Hub>,
    id: u64,
    wake: Arc<Notify>,
}

impl Session {
    /// Adds a watcher; its number, and the newest revision at that moment.
    pub fn watch(&self, mut watch: Watch) -> (Id, i64) {
        let inner = &mut *self.hub.0.lock();
        inner.next_id += 1;
        let (id, revision) = (inner.next_id, inner.revision);
        if watch.start <= 0 {
            watch.start = revision + 1;
        }
        let pending = (watch.start <= revision).then_some(watch.start);
        inner.index.insert(&watch.range, id);
        inner.watchers.insert(id, Watcher { watch, session: self.id, pending, fresh: pending.is_some() });
        if let Some(queue) = inner.sessions.get_mut(&self.id) {
            queue.members.insert(id);
        }
        if pending.is_some() {
            inner.enqueue(self.id, id);
        }
        (id, revision)
    }

    /// Ends a watcher.
    pub fn cancel(&self, id: Id) {
        self.hub.0.lock().remove(id);
    }

    /// Waits for a watcher of this session that has something pending. Safe to drop at any time.
    pub async fn ready(&self) -> Id {
        loop {
            if let Some(id) = self.pop() {
                return id;
            }
            self.wake.notified().await;
        }
    }

    fn pop(&self) -> Option<Id> {
        self.hub.0.lock().sessions.get_mut(&self.id)?.ready.pop_front()
    }

    /// Takes what is pending for a watcher that was ready. It must be called once per [`Session::ready`].
    pub fn next(&self, id: Id) -> Next {
        let inner = &mut *self.hub.0.lock();
        let Some(watcher) = inner.watchers.get_mut(&id) else { return Next::Idle };
        let Some(from) = watcher.pending else { return Next::Idle };
        if std::mem::take(&mut watcher.fresh) && from < inner.compacted {
            return Next::Compacted(inner.compacted);
        }
        let Some(revisions) = inner.ring.read(from, READ_LIMIT) else {
            return Next::History { from, to: inner.ring.complete_after() };
        };
        watcher.pending = match revisions.last() {
            Some(last) if revisions.len() == READ_LIMIT && last.revision < inner.revision => Some(last.revision + 1),
            _ => None,
        };
        if watcher.pending.is_some() {
            inner.enqueue(self.id, id);
        }
        Next::Revisions(revisions)
    }

    /// A watcher has read history up to `seen`.
    pub fn resume(&self, id: Id, seen: i64) {
        let inner = &mut *self.hub.0.lock();
        let revision = inner.revision;
        let Some(watcher) = inner.watchers.get_mut(&id) else { return };
        watcher.pending = (seen < revision).then_some(seen + 1);
        if watcher.pending.is_some() {
            inner.enqueue(self.id, id);
        }
    }

    /// The newest revision, if this watcher has been given everything up to it.
    pub fn synced(&self, id: Id) -> Option<i64> {
        let inner = self.hub.0.lock();
        inner.watchers.get(&id)?.is_synced(inner.revision).then_some(inner.revision)
    }

    /// The newest revision, if every watcher of this session has been given everything up to it. One that begins later
    /// than right after it holds the answer back: a client would go on from what it is told, before where it began.
    pub fn all_synced(&self) -> Option<i64> {
        let inner = self.hub.0.lock();
        let own = &inner.sessions.get(&self.id)?.members;
        let synced = |id| inner.watchers.get(id).is_none_or(|watcher| watcher.is_synced(inner.revision));
        own.iter().all(synced).then_some(inner.revision)
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.hub.revision()
    }

    /// History before this revision is given up.
    pub fn compacted(&self) -> i64 {
        self.hub.0.lock().compacted
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let inner = &mut *self.hub.0.lock();
        let members = inner.sessions.remove(&self.id).map(|queue| queue.members);
        members.into_iter().flatten().for_each(|id| inner.remove(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::{EventKind, KeyRange, KeyValue};
    use crate::watch::Filter;

    fn at(current: i64) -> Revisions {
        Revisions { current, compacted: -1 }
    }

    fn change(revision: i64, keys: &[&'static str]) -> (i64, Vec<Event>) {
        let event = |key: &&'static str| {
            let kv = KeyValue { key: (*key).into(), mod_revision: revision, ..Default::default() };
            Event::new(EventKind::Put, kv, None)
        };
        (revision, keys.iter().map(event).collect())
    }

    fn watch(key: &'static str, start: i64) -> Watch {
        Watch { range: KeyRange::new(&key.into(), &Default::default()), filter: Filter::default(), start }
    }

    fn ready(session: &Session) -> Vec<Id> {
        std::iter::from_fn(|| session.pop()).collect()
    }

    fn numbers(next: Next) -> Vec<i64> {
        match next {
            Next::Revisions(revisions) => revisions.iter().map(|revision| revision.revision).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_watchers_concerned_are_woken_and_each_once() {
        let hub = Hub::new(at(1), 1 << 20);
        let session = hub.session();
        let (a, _) = session.watch(watch("a", 0));
        let (_b, _) = session.watch(watch("b", 0));
        hub.publish([change(2, &["a", "a"]), change(3, &["a"]), change(4, &["c"])]);
        assert_eq!(ready(&session), [a]);
        assert_eq!(session.all_synced(), None);
        assert_eq!(numbers(session.next(a)), [2, 3, 4]);
        assert_eq!(session.all_synced(), Some(4));
        hub.publish([change(5, &["a"])]);
        assert_eq!(ready(&session), [a]);
        assert_eq!(numbers(session.next(a)), [5]);
    }

    #[test]
    fn one_that_fell_behind_the_ring_reads_history_and_comes_back() {
        let hub = Hub::new(at(1), 200);
        let session = hub.session();
        let (a, _) = session.watch(watch("a", 2));
        hub.publish((2..10).map(|revision| change(revision, &["a"])));
        assert_eq!(ready(&session), [a]);
        let Next::History { from: 2, to } = session.next(a) else { panic!("ring kept all") };
        session.resume(a, to);
        assert_eq!(ready(&session), [a]);
        assert_eq!(numbers(session.next(a)), (to + 1..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_start_in_the_future_hears_nothing_before_it() {
        let hub = Hub::new(at(1), 1 << 20);
        let session = hub.session();
        let (a, _) = session.watch(watch("a", 4));
        hub.publish([change(2, &["a"])]);
        assert!(ready(&session).is_empty());
        assert_eq!((session.synced(a), session.all_synced()), (None, None), "it would be taken back to 3");
        hub.publish([change(3, &["a"])]);
        assert!(ready(&session).is_empty());
        assert_eq!((session.synced(a), session.all_synced()), (Some(3), Some(3)));
        hub.publish([change(4, &["a"])]);
        assert_eq!(ready(&session), [a]);
        assert_eq!(numbers(session.next(a)), [4]);
    }

    #[test]
    fn only_one_that_begins_in_compacted_history_is_turned_away() {
        let hub = Hub::new(at(1), 1 << 20);
        let session = hub.session();
        let (early, _) = session.watch(watch("a", 0));
        hub.publish((2..6).map(|revision| change(revision, &["a"])));
        hub.compacted(4);
        let (late, _) = session.watch(watch("a", 3));
        let (allowed, _) = session.watch(watch("a", 4));
        assert_eq!(numbers(session.next(early)), [2, 3, 4, 5]);
        assert!(matches!(session.next(late), Next::Compacted(4)));
        assert_eq!(numbers(session.next(allowed)), [4, 5]);
    }

    #[test]
    fn after_an_installed_snapshot_everybody_reads_what_was_jumped_over() {
        let hub = Hub::new(at(5), 1 << 20);
        let session = hub.session();
        let (a, _) = session.watch(watch("a", 0));
        let (future, _) = session.watch(watch("a", 12));
        hub.reset(at(9));
        assert_eq!(ready(&session), [a]);
        assert!(matches!(session.next(a), Next::History { from: 6, to: 9 }));
        hub.publish((10..13).map(|revision| change(revision, &["a"])));
        assert_eq!(numbers(session.next(future)), [12], "one of the future stays there");
    }

    #[test]
    fn a_dropped_session_leaves_nothing_behind() {
        let hub = Hub::new(at(1), 1 << 20);
        let session = hub.session();
        session.watch(watch("a", 0));
        assert_eq!(hub.watchers(), (1, 0));
        drop(session);
        assert_eq!(hub.watchers(), (0, 0));
    }
}
