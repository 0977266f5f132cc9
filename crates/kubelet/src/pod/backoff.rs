//! Exponential back-off per key, measured from events in the past; as client-go's `flowcontrol.Backoff`.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

/// First delay and largest delay of a restarted container and of a failed pull.
pub(crate) const INITIAL: SignedDuration = SignedDuration::from_secs(10);
/// See [`INITIAL`]. An entry is forgotten after twice this time without a failure.
pub(crate) const MOST: SignedDuration = SignedDuration::from_secs(300);

#[derive(Debug, Clone)]
struct Entry {
    delay: SignedDuration,
    updated: Timestamp,
}

/// Delays by key.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    entries: HashMap<String, Entry>,
    most: SignedDuration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { entries: HashMap::new(), most: MOST }
    }
}

impl Backoff {
    /// With another limit than [`MOST`] (the config file's `crashLoopBackOff.maxContainerRestartPeriod`).
    pub(crate) fn with_most(most: SignedDuration) -> Self {
        Self { most, ..Self::default() }
    }

    /// When the key may be tried again after `event`, with the delay in force; `None` when it may be tried now.
    pub(crate) fn blocked(&self, key: &str, event: Timestamp, now: Timestamp) -> Option<(Timestamp, SignedDuration)> {
        let entry = self.entries.get(key)?;
        if self.expired(entry, event) {
            return None;
        }
        let until = event.saturating_add(entry.delay).unwrap_or(Timestamp::MAX);
        (now < until).then_some((until, entry.delay))
    }

    /// Whether the delay since the last noted try still runs.
    pub(crate) fn blocked_since_update(&self, key: &str, now: Timestamp) -> bool {
        self.entries.get(key).is_some_and(|entry| now.duration_since(entry.updated) < entry.delay)
    }

    /// Notes one more try after `event`: the next delay is twice the last.
    pub(crate) fn next(&mut self, key: &str, event: Timestamp, now: Timestamp) {
        let known = self.entries.get(key).filter(|entry| !self.expired(entry, event));
        let delay = known.map_or(INITIAL.min(self.most), |entry| (entry.delay * 2).min(self.most));
        self.entries.insert(key.to_owned(), Entry { delay, updated: now });
    }

    /// Forgets all keys that begin with `prefix`.
    pub(crate) fn forget(&mut self, prefix: &str) {
        self.entries.retain(|key, _| !key.starts_with(prefix));
    }

    fn expired(&self, entry: &Entry, event: Timestamp) -> bool {
        event.duration_since(entry.updated) > self.most * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn doubles_to_the_limit_and_forgets_after_ten_quiet_minutes() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.blocked("c", at(0), at(0)), None);
        let mut now = 0;
        let mut delays = vec![];
        for _ in 0..7 {
            backoff.next("c", at(now), at(now));
            let (until, delay) = backoff.blocked("c", at(now), at(now)).unwrap();
            delays.push(delay.as_secs());
            now = until.as_second();
        }
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.blocked("c", at(now + 601), at(now + 601)), None);
        backoff.next("c", at(now + 1000), at(now + 1000));
        assert_eq!(backoff.blocked("c", at(now + 1000), at(now + 1000)).unwrap().1.as_secs(), 10);
    }
}
