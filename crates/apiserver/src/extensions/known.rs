//! The definitions as this server last heard of them, and which of them have changed.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Object;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::status::Taken;
use crate::{informer::Sink, registry::apiextensions::view::Definition};

/// What is known.
#[derive(Default)]
pub(super) struct Known {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    all: BTreeMap<String, Object>,
    changed: BTreeSet<String>,
    synced: bool,
}

fn version(definition: &Object) -> u64 {
    definition.resource_version().parse().unwrap_or_default()
}

impl State {
    fn put(&mut self, definition: Object) {
        let name = definition.name().to_owned();
        let old = self.all.get(&name);
        if old.is_some_and(|old| version(old) >= version(&definition)) {
            return;
        }
        if old.is_none_or(|old| Definition(old).accepted() != Definition(&definition).accepted()) {
            self.mark_group(Definition(&definition).group());
        }
        self.changed.insert(name.clone());
        self.all.insert(name, definition);
    }

    /// Names may have become free: everybody in the group who waits for one looks again.
    fn mark_group(&mut self, group: &str) {
        let waits = |definition: Definition<'_>| definition.group() == group && !definition.is("NamesAccepted");
        self.changed.extend(self.all.iter().filter(|(_, other)| waits(Definition(other))).map(|(name, _)| name.clone()));
    }

    fn forget(&mut self, name: &str) {
        if let Some(gone) = self.all.remove(name) {
            self.mark_group(Definition(&gone).group());
        }
        self.changed.insert(name.to_owned());
    }
}

impl Known {
    /// Whether the first list is in.
    pub(super) fn is_synced(&self) -> bool {
        self.state.lock().synced
    }

    /// Returns when something has changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.state.lock().changed)
    }

    pub(super) fn get(&self, name: &str) -> Option<Object> {
        self.state.lock().all.get(name).cloned()
    }

    /// The names that definitions of a group hold.
    pub(super) fn taken(&self, group: &str) -> Taken {
        let state = self.state.lock();
        let members = state.all.values().map(Definition).filter(|definition| definition.group() == group);
        Taken::of(members.map(Definition::accepted))
    }

    /// Takes in what this server wrote itself, before the watch tells of it: the next decision about names must not be made without.
    /// One that the watch says is gone by now stays so.
    pub(super) fn learn(&self, definition: Object) {
        let mut state = self.state.lock();
        if state.all.get(definition.name()).is_some_and(|known| known.uid() == definition.uid()) {
            state.put(definition);
            self.changed.notify_one();
        }
    }
}

impl Sink for Known {
    fn replace(&self, objects: Vec<Object>) {
        let mut state = self.state.lock();
        let names: BTreeSet<&str> = objects.iter().map(Object::name).collect();
        let gone: Vec<String> = state.all.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| state.forget(name));
        objects.into_iter().for_each(|object| state.put(object));
        state.synced = true;
        self.changed.notify_one();
    }

    fn upsert(&self, object: Object) {
        self.state.lock().put(object);
        self.changed.notify_one();
    }

    fn remove(&self, object: &Object) {
        self.state.lock().forget(object.name());
        self.changed.notify_one();
    }
}
