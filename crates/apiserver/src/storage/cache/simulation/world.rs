//! Everybody who uses the cache, and what happens to them.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use futures::FutureExt as _;
use serde_json::json;
use tokio::time::Instant;

use super::super::super::*;
use super::super::{CacheConfig, Cached};
use super::follower::{Follower, refusal};
use super::model::{Model, Wanted};
use super::source::Source;
use crate::dice::Dice;
use crate::storage::memory::Memory;
use crate::storage::suite::pods;

const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
const NAMES: [&str; 4] = ["n", "n-1", "o", "p"];
const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];
/// A cache may need this long to list again after its source was away: the longest pause of its feed, and its readers' patience.
const RECOVERY: Duration = Duration::from_secs(15);
/// Watches at a time.
const MOST_FOLLOWERS: usize = 6;

pub(super) struct World {
    seed: u64,
    dice: Dice,
    memory: Memory,
    source: Arc<Source>,
    cached: Cached,
    model: Model,
    followers: Vec<Follower>,
    /// When the source broke last.
    broken: Instant,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let memory = Memory::new();
        let source = Arc::new(Source::new(memory.open(pods()), !seed));
        let config =
            CacheConfig { bookmarks: Duration::from_millis(200), history: 8, queue: 3, seed: Some(seed), ..CacheConfig::default() };
        let cached = Cached::new(source.clone(), config);
        Self { seed, dice: Dice::new(seed), memory, source, cached, model: Model::default(), followers: Vec::new(), broken: Instant::now() }
    }

    pub(super) async fn step(&mut self) {
        match self.dice.roll(20) {
            0..=6 => self.write().await,
            7..=9 => self.list().await,
            10..=11 => self.watch().await,
            12..=15 => self.read().await,
            16 => self.forget(),
            17 => {
                self.source.restart();
                self.broken = Instant::now();
            }
            18 => {
                let away = !self.source.is_away() && self.dice.one_in(4);
                self.source.set_away(away);
                self.broken = Instant::now();
            }
            _ => {
                let pause = if self.dice.one_in(20) { 80_000 } else { self.dice.roll(300) };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }

    /// Whether the cache may not have recovered yet.
    fn shaky(&self) -> bool {
        self.source.is_away() || self.broken.elapsed() < RECOVERY
    }

    /// Everything works again: every watch gets to the present.
    pub(super) async fn settle(&mut self) {
        self.source.set_away(false);
        for _ in 0..200 {
            self.read_each(100).await;
            if self.followers.iter().all(|follower| follower.is_at_the_end(&self.model)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let behind: Vec<String> = self.followers.iter().filter(|f| !f.is_at_the_end(&self.model)).map(Follower::describe).collect();
        panic!("seed {}: at revision {} these are not there: {behind:#?}", self.seed, self.model.revision());
    }

    async fn write(&mut self) {
        if self.source.is_away() {
            return;
        }
        let key = Key::new(self.dice.pick(&NAMESPACES), self.dice.pick(&NAMES));
        let phase = self.dice.pick(&PHASES);
        let was = self.model.phase(&key);
        if was.is_none() {
            let created = self.cached.create(&key, pod(&key, phase), None).await.unwrap();
            self.model.wrote(created.revision(), key, Some(phase));
        } else if self.dice.one_in(3) {
            let deleted = self.cached.delete(&key, &Preconditions::default(), &mut |_| async { Ok(()) }.boxed()).await.unwrap();
            self.model.wrote(deleted.revision(), key, None);
        } else {
            let object = pod(&key, phase);
            let mut updater = |_| {
                let object = object.clone();
                async move { Ok(Update::Put { object, ttl: None }) }.boxed()
            };
            let updated = self.cached.update(&key, UpdateOptions::default(), &mut updater).await.unwrap().into_entry();
            if was != Some(phase) {
                self.model.wrote(updated.revision(), key, Some(phase));
            }
        }
    }

    fn wanted(&mut self) -> Wanted {
        Wanted {
            scope: if self.dice.one_in(2) { Scope::all() } else { Scope::namespace(self.dice.pick(&NAMESPACES)) },
            phase: self.dice.one_in(3).then(|| self.dice.pick(&PHASES)),
            name: self.dice.one_in(5).then(|| self.dice.pick(&NAMES)),
        }
    }

    fn some_revision(&mut self) -> Revision {
        1 + self.dice.roll(self.model.revision())
    }

    async fn list(&mut self) {
        let wanted = self.wanted();
        let now = self.model.revision();
        let (freshness, oldest) = match self.dice.roll(4) {
            0 => (Freshness::Latest, now),
            1 => (Freshness::Any, 0),
            2 => (Freshness::NotOlderThan(now), now),
            _ => {
                let revision = self.some_revision();
                (Freshness::Exact(revision), revision)
            }
        };
        let limit = self.dice.roll(4);
        let mut options = ListOptions { freshness, limit, predicate: wanted.predicate(), ..ListOptions::default() };
        let (mut shown, mut revision) = (Vec::new(), None);
        loop {
            let list = match self.cached.list(&wanted.scope, options.clone()).await {
                Ok(list) => list,
                Err(error) => return self.check_list_refusal(&error, revision, freshness),
            };
            assert!(limit == 0 || list.items.len() as u64 <= limit, "seed {}: a page holds too much", self.seed);
            assert_eq!(*revision.get_or_insert(list.revision), list.revision, "seed {}: pages of two states", self.seed);
            shown.extend(list.items.iter().map(|entry| (entry.key().clone(), entry.revision())));
            if list.continue_token.is_empty() {
                break;
            }
            options.continue_token = list.continue_token;
            // Time passes between pages.
            if self.dice.one_in(2) {
                self.write().await;
            }
            if self.dice.one_in(6) {
                self.forget();
            }
        }
        let revision = revision.unwrap_or_default();
        let exact = !matches!(freshness, Freshness::Exact(wanted) if wanted != revision);
        assert!(revision >= oldest && exact, "seed {}: {freshness:?} was answered with {revision}", self.seed);
        let state: Vec<_> = self.model.state(revision, &wanted).into_iter().collect();
        assert_eq!(shown, state, "seed {}: {wanted:?} {freshness:?} at {revision}", self.seed);
    }

    fn check_list_refusal(&self, error: &Error, begun_at: Option<Revision>, freshness: Freshness) {
        let of = match (begun_at, freshness) {
            (Some(revision), _) | (None, Freshness::Exact(revision)) => Some(revision),
            _ => None,
        };
        match (error, of) {
            (Error::Timeout(_), _) if self.source.is_away() => {}
            // A cache that cannot be sure of being fresh enough says so.
            (Error::FutureRevision { .. }, _) if matches!(freshness, Freshness::NotOlderThan(_)) && self.shaky() => {}
            (Error::Compacted { continue_token, .. }, Some(revision)) => {
                assert!(revision < self.model.compacted, "seed {}: {revision} was refused", self.seed);
                assert_eq!(continue_token.is_empty(), begun_at.is_none(), "seed {}: how to go on", self.seed);
            }
            _ => panic!("seed {}: a list {freshness:?} begun at {begun_at:?} failed: {error:?}", self.seed),
        }
    }

    async fn watch(&mut self) {
        if self.followers.len() >= MOST_FOLLOWERS {
            let gone = self.dice.roll(self.followers.len() as u64) as usize;
            let mut follower = self.followers.swap_remove(gone);
            assert!(follower.is_right(&self.model), "seed {}: {}", self.seed, follower.describe());
        }
        let wanted = self.wanted();
        let start = match self.dice.roll(4) {
            0 => WatchStart::Latest,
            1 => WatchStart::Any,
            2 if self.dice.one_in(4) => WatchStart::After(self.model.revision() + self.dice.roll(4)),
            _ => WatchStart::After(self.some_revision()),
        };
        let initial_events = self.dice.pick(&[None, Some(true), Some(false)]);
        let options = WatchOptions { start, initial_events, bookmarks: self.dice.one_in(2), predicate: wanted.predicate() };
        self.follow(wanted, options).await;
    }

    async fn follow(&mut self, wanted: Wanted, options: WatchOptions) {
        let now = self.model.revision();
        match self.cached.watch(&wanted.scope, options.clone()).await {
            Ok(stream) => self.followers.push(Follower::new(wanted, options, stream, now)),
            Err(error) => refusal(&options, &error, &self.model, self.shaky()),
        }
    }

    async fn read(&mut self) {
        let most = if self.dice.one_in(3) { 1 } else { 20 };
        self.read_each(most).await;
    }

    /// Lets some watches read, or all where `most` is much; those that ended go on.
    async fn read_each(&mut self, most: u64) {
        for at in (0..self.followers.len()).rev() {
            if most < 100 && self.dice.one_in(2) {
                continue;
            }
            let shaky = self.shaky();
            let follower = &mut self.followers[at];
            follower.read(most, &self.model, shaky).await;
            assert!(follower.is_right(&self.model), "seed {}: {}", self.seed, follower.describe());
            if follower.ended {
                let (wanted, options) = self.followers.swap_remove(at).resume();
                self.follow(wanted, options).await;
            }
        }
    }

    /// The store forgets some of its history.
    fn forget(&mut self) {
        let revision = self.some_revision();
        self.memory.compact(revision);
        self.model.compacted = self.model.compacted.max(revision);
    }
}

fn pod(key: &Key, phase: &str) -> Object {
    let value = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": key.name, "namespace": key.namespace}, "status": {"phase": phase},
    });
    Object::from_value(value).unwrap()
}
