//! One watch on the cache: what it begins with, what follows, and a bookmark now and then.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval};

use super::super::{Error, Event, Result, Revision, Scope, Storage, WatchItem, WatchOptions, WatchStream};
use super::CacheConfig;
use super::initial::Initial;
use super::state::{Begun, Cache};

/// Begins a watch. Errors: `Compacted`.
pub(super) fn start(
    cache: &Arc<Cache>,
    scope: Scope,
    options: WatchOptions,
    bookmarks: Option<Duration>,
) -> Result<impl Stream<Item = Result<WatchItem>> + Send + use<>> {
    let mut begun = cache.begin(scope.clone(), &options)?;
    let ends_initial = options.initial_events == Some(true) && options.bookmarks;
    let mark = ends_initial.then_some(WatchItem::Bookmark { revision: begun.revision, initial_events_end: true });
    let initial = std::mem::replace(&mut begun.initial, Initial::Nothing);
    let initial = initial.seen_by(&scope, &options.predicate).map(WatchItem::Event).chain(mark).map(Ok);
    Ok(stream::iter(initial).chain(follow(cache, begun, bookmarks)))
}

/// What follows the beginning of a watch.
pub(super) fn follow(cache: &Arc<Cache>, begun: Begun, period: Option<Duration>) -> impl Stream<Item = Result<WatchItem>> + Send + use<> {
    let bookmarks = period.map(|period| tokio::time::interval_at(Instant::now() + period, period));
    let watcher = Watcher { cache: cache.clone(), id: begun.id, queue: begun.queue, bookmarks, floor: begun.floor, due: None };
    stream::unfold(watcher, Watcher::next).map(Ok)
}

fn stuck(revision: Revision) -> Error {
    Error::Timeout(format!("the store did not tell what happened up to revision {revision}"))
}

/// The events of a store's watch up to and including `revision`; the store is asked for progress to know that it got there.
/// Errors: `Timeout`, when it does not get there.
pub(super) fn until(
    inner: Arc<dyn Storage>,
    store: WatchStream,
    revision: Revision,
    config: &CacheConfig,
) -> impl Stream<Item = Result<WatchItem>> + Send + use<> {
    let (ask_every, catch_up) = (config.progress, config.catch_up);
    stream::unfold(store, move |mut store| {
        let inner = inner.clone();
        async move {
            let deadline = Instant::now() + catch_up;
            loop {
                if Instant::now() >= deadline {
                    return Some((Err(stuck(revision)), store));
                }
                match tokio::time::timeout(ask_every, store.next()).await {
                    // Failing to ask shows in the watch itself, sooner or later.
                    Err(_) => drop(inner.request_progress().await),
                    Ok(Some(Ok(WatchItem::Event(event)))) if event.change().revision() > revision => return None,
                    Ok(Some(Ok(WatchItem::Bookmark { revision: reached, .. }))) if reached >= revision => return None,
                    Ok(Some(Ok(WatchItem::Bookmark { .. }))) => {}
                    Ok(item) => return item.map(|item| (item, store)),
                }
            }
        }
    })
}

struct Watcher {
    cache: Arc<Cache>,
    id: u64,
    queue: mpsc::Receiver<Event>,
    bookmarks: Option<Interval>,
    floor: Revision,
    /// A bookmark to send once the queue, which holds everything up to it, is empty.
    due: Option<Revision>,
}

impl Watcher {
    async fn next(mut self) -> Option<(WatchItem, Self)> {
        loop {
            if let Some(revision) = self.due {
                match self.queue.try_recv() {
                    Ok(event) => return Some((WatchItem::Event(event), self)),
                    Err(mpsc::error::TryRecvError::Disconnected) => return None,
                    Err(mpsc::error::TryRecvError::Empty) => {
                        self.due = None;
                        return Some((WatchItem::Bookmark { revision, initial_events_end: false }, self));
                    }
                }
            }
            let tick = async {
                match &mut self.bookmarks {
                    Some(interval) => drop(interval.tick().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = self.queue.recv() => return event.map(|event| (WatchItem::Event(event), self)),
                () = tick => self.due = Some(self.cache.revision()).filter(|revision| *revision >= self.floor),
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.leave(self.id);
    }
}
