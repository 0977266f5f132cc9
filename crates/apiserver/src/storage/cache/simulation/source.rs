//! A store that lags, restarts and is away at times.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use apimachinery::Object;
use async_trait::async_trait;
use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::super::super::*;
use crate::dice::Dice;

/// The longest time that news are under way.
const LAG: u64 = 40;

/// A storage whose streams break and whose answers fail when the simulation says so.
pub(super) struct Source {
    inner: Arc<dyn Storage>,
    dice: Arc<Mutex<Dice>>,
    away: AtomicBool,
    life: Mutex<CancellationToken>,
}

impl Source {
    pub(super) fn new(inner: Arc<dyn Storage>, seed: u64) -> Self {
        Self { inner, dice: Arc::new(Mutex::new(Dice::new(seed))), away: AtomicBool::new(false), life: Mutex::default() }
    }

    /// Breaks all streams.
    pub(super) fn restart(&self) {
        std::mem::take(&mut *self.life.lock()).cancel();
    }

    /// Breaks all streams and answers nothing, or answers again.
    pub(super) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
        if away {
            self.restart();
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    fn there(&self) -> Result<()> {
        if self.is_away() { Err(broken()) } else { Ok(()) }
    }

    /// The stream as it arrives: late, and no longer than the source lives.
    fn over_the_wire<T: Send + 'static>(
        &self,
        items: impl Stream<Item = Result<T>> + Send + 'static,
    ) -> stream::BoxStream<'static, Result<T>> {
        let (dice, life) = (self.dice.clone(), self.life.lock().clone());
        let late = items.then(move |item| {
            let lag = if dice.lock().one_in(3) { dice.lock().roll(LAG) } else { 0 };
            async move {
                tokio::time::sleep(Duration::from_millis(lag)).await;
                item
            }
        });
        late.take_until(life.cancelled_owned()).chain(stream::once(async { Err(broken()) })).boxed()
    }
}

fn broken() -> Error {
    Error::Timeout("the source is away".to_owned())
}

#[async_trait]
impl Storage for Source {
    fn collection(&self) -> &Collection {
        self.inner.collection()
    }

    async fn get(&self, key: &Key, freshness: Freshness) -> Result<Entry> {
        self.there()?;
        self.inner.get(key, freshness).await
    }

    async fn list(&self, scope: &Scope, options: ListOptions) -> Result<List> {
        self.there()?;
        self.inner.list(scope, options).await
    }

    async fn watch(&self, scope: &Scope, options: WatchOptions) -> Result<WatchStream> {
        self.there()?;
        Ok(self.over_the_wire(self.inner.watch(scope, options).await?))
    }

    async fn changes(&self, after: Revision) -> Result<FeedStream> {
        self.there()?;
        Ok(self.over_the_wire(self.inner.changes(after).await?))
    }

    async fn create(&self, key: &Key, object: Object, ttl: Option<Duration>) -> Result<Entry> {
        self.there()?;
        self.inner.create(key, object, ttl).await
    }

    async fn update(&self, key: &Key, options: UpdateOptions, updater: &mut Updater<'_>) -> Result<Updated> {
        self.there()?;
        self.inner.update(key, options, updater).await
    }

    async fn delete(&self, key: &Key, preconditions: &Preconditions, validate: &mut Validator<'_>) -> Result<Entry> {
        self.there()?;
        self.inner.delete(key, preconditions, validate).await
    }

    async fn current_revision(&self) -> Result<Revision> {
        self.there()?;
        self.inner.current_revision().await
    }

    async fn request_progress(&self) -> Result<()> {
        self.there()?;
        self.inner.request_progress().await
    }

    async fn reports_progress(&self) -> bool {
        true
    }
}
