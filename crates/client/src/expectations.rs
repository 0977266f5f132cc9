//! What a controller has done but does not see in its cache yet.
//!
//! A controller that creates three pods and then reads a cache without them would create three more. It records how many
//! creations and which deletions it expects to see, and leaves an object alone until they have been observed or enough
//! time has passed to stop believing in them (upstream: `controller.UIDTrackingControllerExpectations`).

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::Key;

/// After this long unfulfilled expectations count as fulfilled: an event was missed, and a sync must heal it.
pub const TIMEOUT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
struct Expected {
    creations: i64,
    deletions: HashSet<String>,
    since: Instant,
}

/// Expectations of one controller, by the key of the object it reconciles.
#[derive(Debug, Default)]
pub struct Expectations {
    by_key: Mutex<HashMap<Key, Expected>>,
}

impl Expectations {
    /// Nothing expected of anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `key` may be reconciled at `now`: all seen, timed out, or never recorded.
    pub fn satisfied(&self, key: &Key, now: Instant) -> bool {
        self.by_key.lock().get(key).is_none_or(|expected| {
            let seen = expected.creations <= 0 && expected.deletions.is_empty();
            seen || now.duration_since(expected.since) > TIMEOUT
        })
    }

    /// Expects `count` creations on behalf of `key`, replacing what was expected before.
    pub fn expect_creations(&self, key: &Key, count: usize, now: Instant) {
        let creations = i64::try_from(count).unwrap_or(i64::MAX);
        self.set(key, Expected { creations, deletions: HashSet::new(), since: now });
    }

    /// Expects the deletion of the objects with these UIDs, replacing what was expected before.
    pub fn expect_deletions(&self, key: &Key, uids: impl IntoIterator<Item = String>, now: Instant) {
        self.set(key, Expected { creations: 0, deletions: uids.into_iter().collect(), since: now });
    }

    /// One expected creation was seen, or will never happen.
    pub fn creation_observed(&self, key: &Key) {
        self.creations_observed(key, 1);
    }

    /// `count` expected creations were seen, or will never happen.
    pub fn creations_observed(&self, key: &Key, count: usize) {
        if let Some(expected) = self.by_key.lock().get_mut(key) {
            expected.creations = expected.creations.saturating_sub_unsigned(count as u64);
        }
    }

    /// The deletion of the object with this UID was seen, or will never happen.
    pub fn deletion_observed(&self, key: &Key, uid: &str) {
        if let Some(expected) = self.by_key.lock().get_mut(key) {
            expected.deletions.remove(uid);
        }
    }

    /// Forgets a key whose object is gone.
    pub fn remove(&self, key: &Key) {
        self.by_key.lock().remove(key);
    }

    fn set(&self, key: &Key, expected: Expected) {
        self.by_key.lock().insert(key.clone(), expected);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Expectations, TIMEOUT};
    use crate::Key;

    fn key() -> Key {
        Key::new("default", "web")
    }

    #[test]
    fn holds_back_until_every_creation_is_seen() {
        let (expectations, now) = (Expectations::new(), Instant::now());
        expectations.expect_creations(&key(), 2, now);
        expectations.creation_observed(&key());
        assert!(!expectations.satisfied(&key(), now));
        expectations.creation_observed(&key());
        assert!(expectations.satisfied(&key(), now));
    }

    #[test]
    fn counts_each_deleted_object_once() {
        let (expectations, now) = (Expectations::new(), Instant::now());
        expectations.expect_deletions(&key(), ["a".to_owned(), "b".to_owned()], now);
        expectations.deletion_observed(&key(), "a");
        expectations.deletion_observed(&key(), "a");
        assert!(!expectations.satisfied(&key(), now));
        expectations.deletion_observed(&key(), "b");
        assert!(expectations.satisfied(&key(), now));
    }

    #[test]
    fn stops_believing_after_five_minutes() {
        let (expectations, now) = (Expectations::new(), Instant::now());
        expectations.expect_creations(&key(), 1, now);
        assert!(!expectations.satisfied(&key(), now + TIMEOUT));
        assert!(expectations.satisfied(&key(), now + TIMEOUT * 2));
    }

    #[test]
    fn knows_nothing_of_an_object_it_forgot() {
        let (expectations, now) = (Expectations::new(), Instant::now());
        expectations.expect_creations(&key(), 1, now);
        expectations.remove(&key());
        assert!(expectations.satisfied(&key(), now));
    }
}
