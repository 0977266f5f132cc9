//! The watch cache: all objects of a collection in memory, fed by one watch, serving any number of readers and watchers.
//!
//! Each object is kept once, as the JSON that answers show. The map of objects is persistent: the state after each recent
//! change stays readable at the price of that change, so pages and exact lists of the recent past need no store. A list that
//! must be fresh asks the store for its revision and waits until the feed has got there; if that takes too long, the store
//! itself is read. Writes go straight to the store.

mod feed;
mod initial;
mod read;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use async_trait::async_trait;
use futures::StreamExt as _;
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::typed::until_error;
use super::*;
use read::Page;
use state::Cache;

/// Times and sizes; the defaults are upstream's.
#[derive(Clone, Debug)]
pub(crate) struct CacheConfig {
    /// How often a watch that asked for bookmarks gets one.
    pub(crate) bookmarks: Duration,
    /// How long a reader waits for the feed before the store is read instead.
    pub(crate) patience: Duration,
    /// How long the store may take from one event to the next while a watch from the far past catches up.
    pub(crate) catch_up: Duration,
    /// How often the store is asked for progress while readers wait.
    pub(crate) progress: Duration,
    /// Changes kept at most, for watches that begin in the past and lists of the past.
    pub(crate) history: usize,
    /// Events a watcher may be behind before it is cut off.
    pub(crate) queue: usize,
    /// What the pauses between tries to reach the store are drawn from; unset, by chance.
    pub(crate) seed: Option<u64>,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            bookmarks: Duration::from_secs(60),
            patience: Duration::from_secs(3),
            catch_up: Duration::from_secs(30),
            progress: Duration::from_millis(100),
            history: 10_000,
            queue: 1_000,
            seed: None,
        }
    }
}

/// Lays a cache over every collection of another backend.
pub(crate) struct CachedBackend {
    inner: Arc<dyn Backend>,
    config: CacheConfig,
}

impl CachedBackend {
    /// Caches over `inner`.
    pub(crate) fn new(inner: Arc<dyn Backend>, config: CacheConfig) -> Self {
        Self { inner, config }
    }
}

#[async_trait]
impl Backend for CachedBackend {
    fn open(&self, collection: Collection) -> Arc<dyn Storage> {
        Arc::new(Cached::new(self.inner.open(collection), self.config.clone()))
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }
}

/// One cached collection. The feed starts with the first reader, and ends with the cache.
pub(crate) struct Cached {
    inner: Arc<dyn Storage>,
    cache: Arc<Cache>,
    config: CacheConfig,
    feed: OnceCell<Feed>,
}

struct Feed(AbortHandle);

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cached {
    pub(crate) fn new(inner: Arc<dyn Storage>, config: CacheConfig) -> Self {
        let cache = Arc::new(Cache::new(config.history, config.queue));
        Self { inner, cache, config, feed: OnceCell::new() }
    }

    /// Starts the feed if need be and waits for its first list; false if it takes too long.
    async fn ready(&self) -> bool {
        let (inner, cache) = (self.inner.clone(), self.cache.clone());
        let dice = self.config.seed.map_or_else(|| StdRng::from_rng(&mut rand::rng()), StdRng::seed_from_u64);
        self.feed.get_or_init(|| async { Feed(tokio::spawn(feed::run(inner, cache, dice)).abort_handle()) }).await;
        self.reached(1, Instant::now() + self.config.patience, false).await
    }

    /// Waits until the cache shows `revision` or later.
    async fn reached(&self, revision: Revision, deadline: Instant, ask: bool) -> bool {
        let mut shown = self.cache.subscribe();
        if *shown.borrow() >= revision {
            return true;
        }
        let mut reached = std::pin::pin!(shown.wait_for(|shown| *shown >= revision));
        loop {
            if ask && self.inner.request_progress().await.is_err() {
                return false;
            }
            let pause = (Instant::now() + self.config.progress).min(deadline);
            match tokio::time::timeout_at(pause, &mut reached).await {
                Ok(reached) => return reached.is_ok(),
                Err(_) if Instant::now() >= deadline => return false,
                Err(_) => {}
            }
        }
    }

    /// Whether the cache is, or becomes in time, as fresh as asked. Errors: `FutureRevision`, and the store's own.
    async fn fresh(&self, freshness: Freshness) -> Result<bool> {
        if !self.ready().await {
            return Ok(false);
        }
        let deadline = Instant::now() + self.config.patience;
        match freshness {
            Freshness::Any | Freshness::Exact(_) => Ok(true),
            Freshness::Latest if !self.inner.reports_progress().await => Ok(false),
            Freshness::Latest => {
                let revision = self.inner.current_revision().await?;
                Ok(self.reached(revision, deadline, true).await)
            }
            // Nothing but an event would show that the cache got there: the store itself knows at once.
            Freshness::NotOlderThan(requested) if !self.inner.reports_progress().await => Ok(self.cache.revision() >= requested),
            Freshness::NotOlderThan(requested) => {
                if self.reached(requested, deadline, true).await {
                    return Ok(true);
                }
                Err(Error::FutureRevision { requested, current: self.cache.revision() })
            }
        }
    }
}

impl Cached {
    /// A watch from before the cache's own history: the store tells what happened until now, the cache what follows.
    async fn watch_the_past(&self, scope: &Scope, options: WatchOptions, bookmarks: Option<Duration>) -> Result<WatchStream> {
        let from_now = WatchOptions { start: WatchStart::Any, initial_events: Some(false), ..options.clone() };
        let begun = self.cache.begin(scope.clone(), &from_now)?;
        let until = begun.revision;
        let store = self.inner.watch(scope, WatchOptions { bookmarks: true, ..options }).await?;
        let past = watcher::until(self.inner.clone(), store, until, &self.config);
        Ok(until_error(past.chain(watcher::follow(&self.cache, begun, bookmarks))).boxed())
    }
}

#[async_trait]
impl Storage for Cached {
    fn collection(&self) -> &Collection {
        self.inner.collection()
    }

    async fn get(&self, key: &Key, freshness: Freshness) -> Result<Entry> {
        // One object, read linearizably, costs the store no more than telling its revision.
        if matches!(freshness, Freshness::Latest | Freshness::Exact(_)) || !self.fresh(freshness).await? {
            return self.inner.get(key, freshness).await;
        }
        let missing = || Error::NotFound { key: format!("{}/{key}", self.collection().prefix) };
        self.cache.get(key).ok_or_else(missing)
    }

    async fn list(&self, scope: &Scope, options: ListOptions) -> Result<List> {
        let page = Page::of(&options)?;
        if self.fresh(page.freshness()).await?
            && let Some((objects, revision)) = self.cache.at(page.freshness())
        {
            return Ok(page.cut(&objects, revision, scope, &options));
        }
        self.inner.list(scope, options).await
    }

    async fn watch(&self, scope: &Scope, options: WatchOptions) -> Result<WatchStream> {
        let freshness = match (options.start, options.initial_events) {
            (WatchStart::Latest, _) => Freshness::Latest,
            (WatchStart::After(revision), Some(true)) => Freshness::NotOlderThan(revision),
            _ => Freshness::Any,
        };
        if !self.fresh(freshness).await? {
            return self.inner.watch(scope, options).await;
        }
        let bookmarks = options.bookmarks.then_some(self.config.bookmarks);
        match watcher::start(&self.cache, scope.clone(), options.clone(), bookmarks) {
            Err(Error::Compacted { .. }) if self.inner.reports_progress().await => self.watch_the_past(scope, options, bookmarks).await,
            Err(Error::Compacted { .. }) => self.inner.watch(scope, options).await,
            started => Ok(started?.boxed()),
        }
    }

    async fn changes(&self, after: Revision) -> Result<FeedStream> {
        self.inner.changes(after).await
    }

    async fn create(&self, key: &Key, object: Object, ttl: Option<Duration>) -> Result<Entry> {
        self.inner.create(key, object, ttl).await
    }

    async fn update(&self, key: &Key, options: UpdateOptions, updater: &mut Updater<'_>) -> Result<Updated> {
        let hint = self.cache.get(key);
        self.inner.update(key, UpdateOptions { hint, ..options }, updater).await
    }

    async fn delete(&self, key: &Key, preconditions: &Preconditions, validate: &mut Validator<'_>) -> Result<Entry> {
        self.inner.delete(key, preconditions, validate).await
    }

    async fn current_revision(&self) -> Result<Revision> {
        self.inner.current_revision().await
    }

    async fn request_progress(&self) -> Result<()> {
        self.inner.request_progress().await
    }

    async fn reports_progress(&self) -> bool {
        self.inner.reports_progress().await
    }
}
