//! Exponential back-off with jitter, bounded.

use std::time::Duration;

use rand::Rng;

/// Delays between tries: each is drawn from the upper half of a doubling, capped interval.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    tries: u32,
}

impl Backoff {
    /// Starts at `first` and doubles up to `most`.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, tries: 0 }
    }

    /// The next delay, drawn with `rng`.
    pub fn next_delay(&mut self, rng: &mut impl Rng) -> Duration {
        let full = self.first.saturating_mul(1 << self.tries.min(20)).min(self.most);
        self.tries = self.tries.saturating_add(1);
        full.mul_f64(rng.random_range(0.5..=1.0))
    }

    /// Waits for the next delay.
    pub async fn wait(&mut self) {
        let delay = self.next_delay(&mut rand::rng());
        tokio::time::sleep(delay).await;
    }

    /// Begins anew, after a success.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn delays_double_up_to_the_bound_and_start_again_after_a_reset() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(1);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(300));
        for full in [100, 200, 300, 300] {
            let delay = backoff.next_delay(&mut rng).as_millis();
            assert!((full / 2..=full).contains(&delay), "{delay} is not within {full}");
        }
        backoff.reset();
        assert!(backoff.next_delay(&mut rng) <= Duration::from_millis(100));
    }
}
