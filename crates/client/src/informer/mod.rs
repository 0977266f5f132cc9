//! Shared informers: a typed cache of one resource, kept current by list and watch.
//!
//! Register indexes and handlers, spawn [`Informer::run`], wait for [`Informer::synced`], read from the cache for ever
//! after. Handlers run in the informer's task and should do no more than put keys into a queue. Objects are shared and
//! never changed in place; `metadata.managedFields` is dropped before caching, as upstream's controllers do.

mod reflector;
mod source;
mod store;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use component::Shutdown;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

pub use source::{MetadataSource, Selected, Source, WatchStream};
pub use store::IndexFn;
use store::{Store, Update};

use crate::Key;

/// Index of [`Informer::with_namespace_index`].
pub const NAMESPACE: &str = "namespace";
/// Index of [`Informer::with_owner_index`]: the UIDs of all controllers that own an object.
pub const CONTROLLER_UID: &str = "controllerUID";

/// One change of the cache, told to handlers after the cache has it.
#[derive(Debug)]
pub enum Change<'a, K> {
    /// The object is new to the cache.
    Added(&'a Arc<K>),
    /// The object changed; several changes may have been folded into one.
    Updated {
        /// As cached before.
        old: &'a Arc<K>,
        /// As cached now.
        new: &'a Arc<K>,
    },
    /// The object is gone; this is the last state seen, which may not have been its last.
    Deleted(&'a Arc<K>),
}

impl<K> Change<'_, K> {
    /// The object as it is now, or as it was last seen when it is gone.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }
}

/// What an informer needs of an object.
pub trait Object: Resource + Clone + fmt::Debug + Send + Sync + 'static {}
impl<K: Resource + Clone + fmt::Debug + Send + Sync + 'static> Object for K {}

type Handler<K> = Box<dyn FnMut(Change<'_, K>) + Send>;

struct Shared<K: Clone> {
    name: String,
    source: Box<dyn Source<K>>,
    store: RwLock<Store<K>>,
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
}

/// A shared cache of one resource. Clones share the cache.
pub struct Informer<K: Clone> {
    shared: Arc<Shared<K>>,
}

impl<K: Clone> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Object> Informer<K> {
    /// An informer over what `source` lists and watches: a [`kube::Api`], or a [`MetadataSource`].
    ///
    /// `name` names the resource in logs. Nothing happens before [`Informer::run`].
    pub fn new(name: impl Into<String>, source: impl Source<K>) -> Self {
        let shared = Shared {
            name: name.into(),
            source: Box::new(source),
            store: RwLock::new(Store::default()),
            handlers: Mutex::new(Vec::new()),
            synced: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds an index: `values` names the index values under which an object is found by [`Informer::by_index`].
    ///
    /// Adding an index twice keeps the first, so that controllers sharing an informer may each ask for what they need.
    #[must_use]
    pub fn with_index(self, index: &'static str, values: IndexFn<K>) -> Self {
        self.shared.store.write().add_index(index, values);
        self
    }

    /// Adds the index [`NAMESPACE`].
    #[must_use]
    pub fn with_namespace_index(self) -> Self {
        self.with_index(NAMESPACE, |object| object.meta().namespace.iter().cloned().collect())
    }

    /// Adds the index [`CONTROLLER_UID`].
    #[must_use]
    pub fn with_owner_index(self) -> Self {
        self.with_index(CONTROLLER_UID, |object| {
            let owners = object.meta().owner_references.iter().flatten();
            owners.filter(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()).collect()
        })
    }

    /// Calls `handler` for every change from now on, and first with [`Change::Added`] for each object already cached.
    ///
    /// The cache already shows the change when its handler runs. A handler must not register further handlers.
    pub fn on_change(&self, mut handler: impl FnMut(Change<'_, K>) + Send + 'static) {
        let mut handlers = self.shared.handlers.lock();
        for object in self.list() {
            handler(Change::Added(&object));
        }
        handlers.push(Box::new(handler));
    }

    /// Whether the first list has arrived and its handlers have run.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits for [`Informer::has_synced`].
    pub async fn synced(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// The cached object of that key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.store.read().get(key)
    }

    /// Every cached object, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store.read().list()
    }

    /// The cached objects of one namespace, by name.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.shared.store.read().list_namespace(namespace)
    }

    /// The cached objects that `index` holds under `value`, by namespace and name; nothing for an unknown index.
    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<K>> {
        self.shared.store.read().by_index(index, value)
    }

    /// Number of cached objects.
    pub fn len(&self) -> usize {
        self.shared.store.read().len()
    }

    /// Whether the cache holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lists and watches until `shutdown`; failures are retried with back-off and jitter, an expired version by listing anew.
    pub async fn run(self, shutdown: Shutdown) {
        shutdown.run_until_cancelled(reflector::reflect(&self)).await;
    }

    fn apply(&self, update: Update<K>) {
        let mut handlers = self.shared.handlers.lock();
        let changes = self.shared.store.write().apply(update);
        for change in &changes {
            for handler in handlers.iter_mut() {
                handler(change.as_ref());
            }
        }
    }
}

/// Whether `labels` match `selector`, as `metav1.LabelSelectorAsSelector` does: an empty selector matches everything, an
/// absent one nothing. An operator unknown to upstream matches nothing.
pub fn matches(selector: Option<&LabelSelector>, labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    let Some(selector) = selector else { return false };
    let value = |key: &String| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let listed = |value: &String| requirement.values.iter().flatten().any(|listed| listed == value);
            match requirement.operator.as_str() {
                "In" => value(&requirement.key).is_some_and(listed),
                "NotIn" => !value(&requirement.key).is_some_and(listed),
                "Exists" => value(&requirement.key).is_some(),
                "DoesNotExist" => value(&requirement.key).is_none(),
                _ => false,
            }
        })
}
