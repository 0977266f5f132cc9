//! How long a failed item waits (upstream: `DefaultTypedControllerRateLimiter`): the longer of its own exponential
//! back-off and a token bucket over all items.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;

const BASE: Duration = Duration::from_millis(5);
const MAX: Duration = Duration::from_secs(1000);
/// Requeues per second over all items, and how many at once.
const RATE: f64 = 10.0;
const BURST: f64 = 100.0;

pub(super) struct Limiter<T> {
    failures: HashMap<T, u32>,
    tokens: f64,
    filled: Option<Instant>,
}

impl<T: Clone + Eq + Hash> Limiter<T> {
    pub(super) fn new() -> Self {
        Self { failures: HashMap::new(), tokens: BURST, filled: None }
    }

    /// Counts one more failure of `item`; how long it is to wait.
    pub(super) fn delay(&mut self, item: &T, now: Instant) -> Duration {
        let failures = self.failures.entry(item.clone()).or_default();
        let own = 1_u32.checked_shl(*failures).and_then(|factor| BASE.checked_mul(factor)).unwrap_or(MAX).min(MAX);
        *failures = failures.saturating_add(1);
        own.max(self.reserve(now))
    }

    pub(super) fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    pub(super) fn failures(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }

    fn reserve(&mut self, now: Instant) -> Duration {
        let elapsed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * RATE).min(BURST) - 1.0;
        Duration::from_secs_f64((-self.tokens / RATE).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Limiter, MAX};

    #[test]
    fn doubles_up_to_a_thousand_seconds() {
        let (mut limiter, mut now) = (Limiter::new(), Instant::now());
        let mut delays = Vec::new();
        for _ in 0..40 {
            delays.push(limiter.delay(&"a", now));
            now += Duration::from_secs(1);
        }
        assert_eq!(delays[..3], [5, 10, 20].map(Duration::from_millis));
        assert_eq!(delays[39], MAX);
    }

    #[test]
    fn many_failing_items_together_wait_for_the_bucket() {
        let (mut limiter, now) = (Limiter::new(), Instant::now());
        let delays: Vec<_> = (0..120).map(|item| limiter.delay(&item, now)).collect();
        assert_eq!(delays[99], Duration::from_millis(5));
        assert_eq!(delays[119], Duration::from_secs(2));
    }
}
