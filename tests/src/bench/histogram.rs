//! Latencies in microseconds: counts in buckets that are never wider than a sixty-fourth of their value.

use std::time::Duration;

/// Buckets per doubling.
const STEPS: u64 = 64;
/// Up to 2^42 microseconds, some fifty days.
const BUCKETS: usize = 37 * STEPS as usize + 2 * STEPS as usize;

/// How often which latency was seen.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Of these latencies.
    pub fn of(latencies: &[Duration]) -> Self {
        let mut histogram = Self::default();
        latencies.iter().for_each(|latency| histogram.record(*latency));
        histogram
    }

    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(micros).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// Counts what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The latency that `permille` of a thousand do not exceed; zero when there are none.
    pub fn permille(&self, permille: u64) -> Duration {
        let wanted = (self.total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(lowest(bucket as u64));
            }
        }
        Duration::ZERO
    }
}

/// Where a number of microseconds is counted.
fn bucket(micros: u64) -> usize {
    if micros < 2 * STEPS {
        return micros as usize;
    }
    let doublings = u64::from(micros.ilog2()) - u64::from(STEPS.ilog2());
    (doublings * STEPS + (micros >> doublings)) as usize
}

/// The least number of microseconds counted in a bucket.
fn lowest(bucket: u64) -> u64 {
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    (bucket % STEPS + STEPS) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_counted_within_a_sixty_fourth_of_itself() {
        for micros in [0, 1, 127, 128, 129, 255, 256, 1000, 123_456, 98_765_432, 1 << 41] {
            let found = lowest(bucket(micros) as u64);
            assert!(found <= micros && micros - found <= micros / STEPS, "{micros} became {found}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let micros = Duration::from_micros;
        let mut histogram = Histogram::of(&(1..=50).map(micros).collect::<Vec<_>>());
        histogram.add(&Histogram::of(&(51..=100).map(micros).collect::<Vec<_>>()));
        assert_eq!(histogram.count(), 100);
        assert_eq!([500, 990, 999].map(|permille| histogram.permille(permille)), [50, 99, 100].map(micros));
        assert_eq!(Histogram::default().permille(500), Duration::ZERO);
    }
}
