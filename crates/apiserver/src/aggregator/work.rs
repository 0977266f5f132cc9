//! What has changed since somebody last looked.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::informer::{Cache, Sink};

/// Names of what is to be looked at again; each stands there once, however often it changes.
#[derive(Default)]
pub(super) struct Work {
    changed: Mutex<Changed>,
    notify: Notify,
}

/// What to look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Everything: a list was read anew.
    pub(super) everything: bool,
    /// These.
    pub(super) topics: BTreeSet<String>,
}

impl Work {
    fn tell(&self, topic: Option<String>) {
        let mut changed = self.changed.lock();
        match topic {
            Some(topic) => drop(changed.topics.insert(topic)),
            None => changed.everything = true,
        }
        self.notify.notify_one();
    }

    /// Returns when something has changed since it was last taken.
    pub(super) async fn changed(&self) {
        self.notify.notified().await;
    }

    pub(super) fn take(&self) -> Changed {
        std::mem::take(&mut self.changed.lock())
    }
}

/// A cache that tells those who wait for changes.
pub(super) struct Told<T> {
    pub(super) cache: Arc<Cache<T>>,
    /// What a change of an object is about.
    pub(super) topic: fn(&Object) -> String,
    pub(super) listeners: Vec<Arc<Work>>,
}

impl<T> Told<T> {
    fn tell(&self, topic: Option<String>) {
        self.listeners.iter().for_each(|listener| listener.tell(topic.clone()));
    }
}

impl<T: Send + Sync + 'static> Sink for Told<T> {
    fn replace(&self, objects: Vec<Object>) {
        self.cache.replace(objects);
        self.tell(None);
    }

    fn upsert(&self, object: Object) {
        let topic = (self.topic)(&object);
        self.cache.upsert(object);
        self.tell(Some(topic));
    }

    fn remove(&self, object: &Object) {
        self.cache.remove(object);
        self.tell(Some((self.topic)(object)));
    }
}
