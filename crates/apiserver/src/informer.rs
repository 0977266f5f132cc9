//! The server's own view of some of its objects: listed and watched through the [`Loopback`](crate::loopback), kept up to
//! date in the background. Authorizers and admission plugins read from here, so they never wait for the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apimachinery::{Object, status::Status};
use component::backoff::Backoff;
use futures::StreamExt as _;
use parking_lot::RwLock;

use crate::loopback::Api;
use crate::storage::Key;

/// A watch that lasted this long was a good one.
const STEADY: Duration = Duration::from_secs(5);

/// What an informer feeds.
pub(crate) trait Sink: Send + Sync + 'static {
    /// These are all the objects there are.
    fn replace(&self, objects: Vec<Object>);
    /// This object came or changed.
    fn upsert(&self, object: Object);
    /// This object went.
    fn remove(&self, object: &Object);
}

/// Lists and watches `api` into `sink` until dropped. Goes on from where it was when a watch ends, and lists anew when the
/// history is gone.
pub(crate) async fn feed(api: Api, sink: Arc<dyn Sink>) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    let mut version = None;
    loop {
        let began = Instant::now();
        if let Err(status) = feed_once(&api, &*sink, &mut version).await {
            tracing::debug!(error = %status, "starting a watch over");
            if status.code == 410 {
                version = None;
            }
        }
        if began.elapsed() >= STEADY {
            backoff.reset();
        }
        // Also after a watch that ended in good order: a server that shuts down ends each at once, and without a pause this
        // loop would starve all others.
        backoff.wait().await;
    }
}

/// One list (if there is no `version` to go on from) and one watch; `Ok` when the server ended the watch in good order.
async fn feed_once(api: &Api, sink: &dyn Sink, version: &mut Option<String>) -> Result<(), Status> {
    let from = match version {
        Some(version) => version.clone(),
        None => {
            let list = api.list("resourceVersion=0").await?;
            sink.replace(list.items);
            version.insert(list.resource_version).clone()
        }
    };
    let mut events = std::pin::pin!(api.watch("", &from).await?);
    while let Some(event) = events.next().await {
        let (kind, object) = event?;
        *version = Some(object.resource_version().to_owned());
        match kind.as_str() {
            "ADDED" | "MODIFIED" => sink.upsert(object),
            "DELETED" => sink.remove(&object),
            _ => {}
        }
    }
    Ok(())
}

/// Objects by key, reduced to what their reader needs.
pub(crate) struct Cache<T> {
    objects: RwLock<BTreeMap<Key, Arc<T>>>,
    reduce: fn(Object) -> Option<T>,
    synced: AtomicBool,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// An empty cache; `reduce` gives `None` for objects that cannot be read, which then count as absent.
    pub(crate) fn new(reduce: fn(Object) -> Option<T>) -> Arc<Self> {
        Arc::new(Self { objects: RwLock::default(), reduce, synced: AtomicBool::new(false) })
    }

    /// One object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.objects.read().get(&Key::new(namespace, name)).cloned()
    }

    /// Shows the objects of a namespace (empty: the cluster-scoped ones), in order of their names, until `seen` says that it has
    /// seen enough; whether it said so.
    pub(crate) fn any(&self, namespace: &str, mut seen: impl FnMut(&Key, &T) -> bool) -> bool {
        let objects = self.objects.read();
        let mut within = objects.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        within.any(|(key, object)| seen(key, object))
    }

    /// All objects of a namespace (empty: the cluster-scoped ones), in order of their names.
    pub(crate) fn list(&self, namespace: &str) -> Vec<(Key, Arc<T>)> {
        let objects = self.objects.read();
        let within = objects.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        within.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Whether the first list is in.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }
}

fn key(object: &Object) -> Key {
    Key::new(object.namespace(), object.name())
}

impl<T: Send + Sync + 'static> Sink for Cache<T> {
    fn replace(&self, objects: Vec<Object>) {
        let reduced = objects.into_iter().filter_map(|object| Some((key(&object), Arc::new((self.reduce)(object)?))));
        *self.objects.write() = reduced.collect();
        self.synced.store(true, Ordering::Release);
    }

    fn upsert(&self, object: Object) {
        let key = key(&object);
        match (self.reduce)(object) {
            Some(reduced) => self.objects.write().insert(key, Arc::new(reduced)),
            None => self.objects.write().remove(&key),
        };
    }

    fn remove(&self, object: &Object) {
        self.objects.write().remove(&key(object));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use axum::body::Body;
    use tower::{service_fn, util::BoxCloneSyncService};

    use super::*;
    use crate::loopback::Loopback;

    /// More asks than this would be a loop without a pause.
    const MANY: usize = 1000;

    #[tokio::test]
    async fn watches_that_all_end_at_once_are_asked_for_ever_more_rarely() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        // Answers every list with nothing and ends every watch at once, in good order, as a server does that shuts down.
        let service = service_fn(move |_| {
            let count = counter.fetch_add(1, Ordering::Relaxed);
            async move {
                if count > MANY {
                    std::future::pending::<()>().await;
                }
                Ok(http::Response::new(Body::from(if count == 0 { r#"{"metadata":{"resourceVersion":"1"},"items":[]}"# } else { "" })))
            }
        });
        let loopback = Loopback::default();
        loopback.connect(BoxCloneSyncService::new(service));
        let cache: Arc<Cache<Object>> = Cache::new(Some);
        let fed = tokio::time::timeout(Duration::from_secs(1), feed(loopback.api("v1", "nodes"), cache.clone())).await;
        assert!(fed.is_err() && cache.is_synced());
        let asked = asked.load(Ordering::Relaxed);
        assert!((2..20).contains(&asked), "asked {asked} times within a second");
    }
}
