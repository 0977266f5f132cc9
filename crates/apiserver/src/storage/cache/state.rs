//! What the cache holds: the objects now and after each recent change, and who watches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rpds::RedBlackTreeMapSync;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::super::{Change, Entry, Error, Event, FeedChange, Freshness, Key, Predicate, Result, Revision, Scope, WatchOptions, WatchStart};
use super::initial::Initial;

/// All objects of a collection at one revision; a clone costs nothing.
pub(super) type Objects = RedBlackTreeMapSync<Key, Entry>;

/// Fields by whose exact value watchers are found without asking them all.
const TRIGGERS: [&str; 2] = ["metadata.name", "spec.nodeName"];
/// A watch that ends is begun anew within this time; upstream keeps as much.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(75);
/// Changes kept however old they are.
const KEPT_AT_LEAST: usize = 100;

/// The shared state of one cached collection.
pub(super) struct Cache {
    state: RwLock<State>,
    /// The revision shown; 0 until the first list.
    shown: watch::Sender<Revision>,
    history: usize,
    queue: usize,
}

#[derive(Default)]
struct State {
    objects: Objects,
    revision: Revision,
    /// Everything after this revision is in `history`.
    since: Revision,
    /// The objects at `since`.
    base: Objects,
    history: VecDeque<Past>,
    watchers: BTreeMap<u64, Watcher>,
    /// Watchers by the value they trigger on; `None` = they see every change.
    triggers: BTreeMap<Option<Trigger>, Vec<u64>>,
    next_watcher: u64,
}

type Trigger = (&'static str, String);

struct Past {
    change: Arc<Change>,
    /// The objects once the change was made.
    after: Objects,
    at: Instant,
}

struct Watcher {
    queue: mpsc::Sender<Event>,
    scope: Scope,
    predicate: Predicate,
    after: Revision,
    trigger: Option<Trigger>,
}

/// A watch as it begins.
pub(super) struct Begun {
    /// What to send first.
    pub(super) initial: Initial,
    /// The revision `initial` leads to.
    pub(super) revision: Revision,
    /// No bookmark lies below: the revision asked for, if that is still to come.
    pub(super) floor: Revision,
    /// What comes after; ends when the watcher is cut off.
    pub(super) queue: mpsc::Receiver<Event>,
    pub(super) id: u64,
}

impl Cache {
    pub(super) fn new(history: usize, queue: usize) -> Self {
        Self { state: RwLock::default(), shown: watch::Sender::new(0), history, queue }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Revision> {
        self.shown.subscribe()
    }

    pub(super) fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub(super) fn get(&self, key: &Key) -> Option<Entry> {
        self.state.read().objects.get(key).cloned()
    }

    /// The objects as asked for, and the revision they show; `None` for a past that is no longer, or never was, here.
    pub(super) fn at(&self, freshness: Freshness) -> Option<(Objects, Revision)> {
        let state = self.state.read();
        match freshness {
            Freshness::Exact(revision) if revision != state.revision => Some((state.past(revision)?, revision)),
            _ => Some((state.objects.clone(), state.revision)),
        }
    }

    /// Begins anew from a list: history is forgotten and all watchers are cut off, since what happened between is unknown.
    pub(super) fn replace(&self, entries: Vec<Entry>, revision: Revision) {
        let objects: Objects = entries.into_iter().map(|entry| (entry.key().clone(), entry)).collect();
        let mut state = self.state.write();
        let next_watcher = state.next_watcher;
        *state = State { base: objects.clone(), objects, revision, since: revision, next_watcher, ..State::default() };
        self.shown.send_replace(revision);
    }

    /// Applies the changes of whole revisions and tells whom they concern. Nobody sees a part of a revision: who begins to
    /// watch there would miss the rest.
    pub(super) fn apply(&self, changes: Vec<FeedChange>) {
        let mut state = self.state.write();
        let known = state.revision;
        for change in changes.into_iter().filter(|change| change.revision > known) {
            state.apply(change);
        }
        state.forget(self.history);
        self.shown.send_replace(state.revision);
    }

    /// Nothing happened up to `revision`.
    pub(super) fn progress(&self, revision: Revision) {
        let mut state = self.state.write();
        if revision > state.revision {
            state.revision = revision;
            self.shown.send_replace(revision);
        }
        state.forget(self.history);
    }

    /// Forgets what is too old, also where nothing happens any more.
    pub(super) fn forget(&self) {
        self.state.write().forget(self.history);
    }

    /// Registers a watcher. Errors: `Compacted`, when it begins before the history.
    pub(super) fn begin(&self, scope: Scope, options: &WatchOptions) -> Result<Begun> {
        let after = match options.start {
            WatchStart::After(revision) => Some(revision),
            WatchStart::Latest | WatchStart::Any => None,
        };
        let predicate = options.predicate.clone();
        let mut state = self.state.write();
        let initial = match after {
            // Looked through by the watch itself: nobody waits for that.
            _ if options.initial_events.unwrap_or(after.is_none()) => Initial::State(state.objects.clone()),
            Some(after) => Initial::Changes(state.changes(&scope, &predicate, after)?),
            None => Initial::Nothing,
        };
        let revision = state.revision;
        let after = after.map_or(revision, |after| after.max(revision));
        let floor = after;
        let (sender, queue) = mpsc::channel(self.queue);
        let trigger = TRIGGERS.iter().find_map(|field| Some((*field, predicate.fields.exact_match(field)?.to_owned())));
        let id = state.next_watcher;
        state.next_watcher += 1;
        state.triggers.entry(trigger.clone()).or_default().push(id);
        state.watchers.insert(id, Watcher { queue: sender, scope, predicate, after, trigger });
        Ok(Begun { initial, revision, floor, queue, id })
    }

    /// Forgets a watcher that went.
    pub(super) fn leave(&self, id: u64) {
        self.state.write().cut_off(id);
    }
}

impl State {
    fn apply(&mut self, FeedChange { key, revision, current }: FeedChange) {
        let previous = self.objects.get(&key).cloned();
        let change = &Change::new(revision, current.clone(), previous.clone());
        // A copy of its own: what is encoded for those who watch now goes when all of them have sent it.
        let past = Change::new(revision, current.clone(), previous);
        match current {
            Some(entry) => self.objects.insert_mut(key, entry),
            None => drop(self.objects.remove_mut(&key)),
        }
        self.revision = revision;
        let after = self.objects.clone();
        self.history.push_back(Past { change: past, after, at: Instant::now() });
        self.dispatch(change);
    }

    /// Drops history beyond `most` changes, and old history beyond a few.
    fn forget(&mut self, most: usize) {
        let stale = |past: &Past| past.at.elapsed() > KEPT_FOR;
        while self.history.len() > most || (self.history.len() > KEPT_AT_LEAST && self.history.front().is_some_and(stale)) {
            let Some(forgotten) = self.history.pop_front() else { return };
            self.since = forgotten.change.revision();
            self.base = forgotten.after;
        }
    }

    /// The objects as of `revision`, while known.
    fn past(&self, revision: Revision) -> Option<Objects> {
        if revision > self.revision || revision < self.since {
            return None;
        }
        let after = self.history.partition_point(|past| past.change.revision() <= revision);
        Some(after.checked_sub(1).map_or_else(|| self.base.clone(), |at| self.history[at].after.clone()))
    }

    fn changes(&self, scope: &Scope, predicate: &Predicate, after: Revision) -> Result<Vec<Event>> {
        if after < self.since {
            return Err(Error::Compacted { requested: after, oldest: Some(self.since), continue_token: String::new() });
        }
        let from = self.history.partition_point(|past| past.change.revision() <= after);
        let concerned = self.history.iter().skip(from).filter(|past| covers(scope, &past.change));
        Ok(concerned.filter_map(|past| Event::seen_by(predicate, &past.change)).collect())
    }

    fn dispatch(&mut self, change: &Arc<Change>) {
        let sides = [change.current(), change.previous()];
        let mut asked: Vec<u64> = self.triggers.get(&None).into_iter().flatten().copied().collect();
        for field in TRIGGERS {
            let mut last = None;
            for value in sides.iter().flatten().filter_map(|entry| entry.field(field)) {
                if last.replace(value) != Some(value) {
                    asked.extend(self.triggers.get(&Some((field, value.to_owned()))).into_iter().flatten());
                }
            }
        }
        let slow: Vec<u64> = asked.into_iter().filter(|id| !self.tell(*id, change)).collect();
        for id in slow {
            self.cut_off(id);
        }
    }

    /// Queues the change for a watcher it concerns; false if that one is too far behind, or gone.
    fn tell(&self, id: u64, change: &Arc<Change>) -> bool {
        let Some(watcher) = self.watchers.get(&id) else { return true };
        if change.revision() <= watcher.after || !covers(&watcher.scope, change) {
            return true;
        }
        Event::seen_by(&watcher.predicate, change).is_none_or(|event| watcher.queue.try_send(event).is_ok())
    }

    fn cut_off(&mut self, id: u64) {
        let Some(watcher) = self.watchers.remove(&id) else { return };
        if let Some(ids) = self.triggers.get_mut(&watcher.trigger) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.triggers.remove(&watcher.trigger);
            }
        }
    }
}

fn covers(scope: &Scope, change: &Change) -> bool {
    change.current().or(change.previous()).is_some_and(|entry| scope.covers(entry.key()))
}
