//! What this server wrote itself lately: when the store's watch tells of it, it need not be read anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Entry, Key, Revision};

/// Entries at a time: those whose event is still to come.
const MOST: usize = 128;
/// Larger ones are read anew.
const LARGEST: usize = 16 * 1024;

/// Entries of one collection, for those who follow it.
#[derive(Default)]
pub(super) struct Written {
    followed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// Of the last event.
    seen: Revision,
}

impl Written {
    /// From now on somebody follows.
    pub(super) fn follow(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    /// This was written.
    pub(super) fn put(&self, entry: &Entry) {
        if !self.followed.load(Ordering::Relaxed) || entry.json().len() > LARGEST {
            return;
        }
        let mut state = self.state.lock();
        // Its event came before the answer to the write.
        if entry.revision() <= state.seen {
            return;
        }
        if state.entries.len() >= MOST {
            // Events lag behind; what is missing is read anew.
            state.entries.clear();
        }
        state.entries.insert(entry.key().clone(), entry.clone());
    }

    /// What was written to `key` at `revision`, once.
    pub(super) fn take(&self, key: &Key, revision: Revision) -> Option<Entry> {
        let mut state = self.state.lock();
        state.seen = state.seen.max(revision);
        // A later one waits for its own event.
        let due = state.entries.get(key).is_some_and(|entry| entry.revision() <= revision);
        let found = if due { state.entries.remove(key) } else { None };
        found.filter(|entry| entry.revision() == revision)
    }

    /// Events up to `revision` came.
    pub(super) fn pass(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.seen = state.seen.max(revision);
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::gvk::GroupResource;

    use super::*;
    use crate::storage::Collection;

    fn entry(name: &str, revision: Revision) -> Entry {
        let collection = Collection::new(GroupResource::new("", "configmaps"), "/registry/configmaps");
        Entry::from_stored(&collection, Key::new("n", name), br#"{"kind":"ConfigMap","metadata":{}}"#, revision).unwrap()
    }

    #[test]
    fn only_what_was_written_at_that_revision_is_found_and_once() {
        let written = Written::default();
        written.put(&entry("a", 5));
        assert!(written.take(&Key::new("n", "a"), 5).is_none(), "nobody follows yet");
        written.follow();
        written.put(&entry("a", 6));
        assert!(written.take(&Key::new("n", "a"), 5).is_none() && written.take(&Key::new("n", "b"), 6).is_none());
        assert_eq!(written.take(&Key::new("n", "a"), 6).unwrap().revision(), 6);
        assert!(written.take(&Key::new("n", "a"), 6).is_none());
    }

    #[test]
    fn what_nobody_asks_for_makes_room_for_what_is_new() {
        let written = Written::default();
        written.follow();
        (0..=MOST).for_each(|at| written.put(&entry(&format!("a{at}"), 5)));
        assert!(written.take(&Key::new("n", "a0"), 5).is_none());
        assert!(written.take(&Key::new("n", format!("a{MOST}")), 5).is_some());
        written.put(&entry("b", 6));
        assert!(written.take(&Key::new("n", "b"), 7).is_none(), "somebody else wrote it since");
    }

    #[test]
    fn what_is_answered_after_its_event_is_not_kept() {
        let written = Written::default();
        written.follow();
        assert!(written.take(&Key::new("n", "a"), 5).is_none());
        written.put(&entry("a", 5));
        written.pass(6);
        written.put(&entry("b", 6));
        assert!(written.state.lock().entries.is_empty());
        written.put(&entry("b", 7));
        assert!(written.take(&Key::new("n", "b"), 7).is_some());
    }
}
