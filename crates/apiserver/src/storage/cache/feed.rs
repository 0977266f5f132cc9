//! Keeps a cache up to date: list, then watch; list again when the watch cannot go on.

use std::sync::Arc;
use std::time::Duration;

use component::backoff::Backoff;
use futures::StreamExt as _;
use rand::rngs::StdRng;

use super::super::{FeedItem, ListOptions, Result, Scope, Storage};
use super::state::{Cache, KEPT_FOR};

/// Runs until aborted.
pub(super) async fn run(inner: Arc<dyn Storage>, cache: Arc<Cache>, mut dice: StdRng) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        match feed(&*inner, &cache, &mut backoff).await {
            Ok(()) => tracing::debug!(resource = %inner.collection().resource, "the cache's watch ended; listing again"),
            Err(error) => tracing::warn!(resource = %inner.collection().resource, %error, "the cache lost its watch; listing again"),
        }
        tokio::time::sleep(backoff.next_delay(&mut dice)).await;
    }
}

async fn feed(inner: &dyn Storage, cache: &Cache, backoff: &mut Backoff) -> Result<()> {
    let list = inner.list(&Scope::all(), ListOptions::default()).await?;
    let mut items = inner.changes(list.revision).await?;
    cache.replace(list.items, list.revision);
    loop {
        let Ok(next) = tokio::time::timeout(KEPT_FOR, items.next()).await else {
            cache.forget();
            continue;
        };
        let Some(item) = next else { return Ok(()) };
        match item? {
            FeedItem::Changes(changes) => cache.apply(changes),
            FeedItem::Progress(revision) => cache.progress(revision),
        }
        backoff.reset();
    }
}
