//! The definitions as this server last heard of them, and which of them have changed.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::Object;
use parking_lot::Mutex;
use serde_json::Value;
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
    all: BTreeMap<String, Kept>,
    changed: BTreeSet<String>,
    synced: bool,
}

/// A definition as JSON, which takes a tenth of what it takes as an object, and what is asked of all of them together.
struct Kept {
    version: u64,
    uid: String,
    group: String,
    accepted: Value,
    has_names: bool,
    json: Box<[u8]>,
}

impl Kept {
    fn new(definition: &Object) -> Self {
        let view = Definition(definition);
        Self {
            version: definition.resource_version().parse().unwrap_or_default(),
            uid: definition.uid().to_owned(),
            group: view.group().to_owned(),
            accepted: view.accepted().clone(),
            has_names: view.is("NamesAccepted"),
            // Writing JSON values into memory cannot fail, and what was written can be read.
            json: serde_json::to_vec(&definition.0).unwrap_or_default().into(),
        }
    }

    fn object(&self) -> Object {
        Object(serde_json::from_slice(&self.json).unwrap_or_default())
    }
}

impl State {
    fn put(&mut self, definition: &Object) {
        let new = Kept::new(definition);
        let old = self.all.get(definition.name());
        if old.is_some_and(|old| old.version >= new.version) {
            return;
        }
        if old.is_none_or(|old| old.accepted != new.accepted) {
            self.mark_group(&new.group);
        }
        self.changed.insert(definition.name().to_owned());
        self.all.insert(definition.name().to_owned(), new);
    }

    /// Names may have become free: everybody in the group who waits for one looks again.
    fn mark_group(&mut self, group: &str) {
        let waits = |other: &Kept| other.group == group && !other.has_names;
        self.changed.extend(self.all.iter().filter(|(_, other)| waits(other)).map(|(name, _)| name.clone()));
    }

    fn forget(&mut self, name: &str) {
        if let Some(gone) = self.all.remove(name) {
            self.mark_group(&gone.group);
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
        self.state.lock().all.get(name).map(Kept::object)
    }

    /// The names that definitions of a group hold.
    pub(super) fn taken(&self, group: &str) -> Taken {
        let state = self.state.lock();
        Taken::of(state.all.values().filter(|definition| definition.group == group).map(|definition| &definition.accepted))
    }

    /// Takes in what this server wrote itself, before the watch tells of it: the next decision about names must not be made without.
    /// One that the watch says is gone by now stays so.
    pub(super) fn learn(&self, definition: &Object) {
        let mut state = self.state.lock();
        if state.all.get(definition.name()).is_some_and(|known| known.uid == definition.uid()) {
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
        objects.iter().for_each(|object| state.put(object));
        state.synced = true;
        self.changed.notify_one();
    }

    fn upsert(&self, object: Object) {
        self.state.lock().put(&object);
        self.changed.notify_one();
    }

    fn remove(&self, object: &Object) {
        self.state.lock().forget(object.name());
        self.changed.notify_one();
    }
}
