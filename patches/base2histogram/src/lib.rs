//! What openraft uses of `base2histogram`, in 65 counters: one for 0 and one for each power of two.
//!
//! The original fills lookup tables of 26 MiB for sixteen precisions, of which openraft uses one, at the start of every
//! process. Remove this stand-in (and its line in the workspace's `[patch]`) once it builds them on demand.
#![forbid(unsafe_code)]

use std::{fmt, marker::PhantomData};

/// Counts values by power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: [u64; 65],
    slot: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    /// Without values.
    pub fn new() -> Self {
        Self { counts: [0; 65], slot: PhantomData }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `times` times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        self.counts[(u64::BITS - value.leading_zeros()) as usize] += times;
    }

    /// Values counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lower bound of the counter that holds the value at `permille` of all.
    fn at(&self, permille: u64) -> u64 {
        let wanted = (self.total() * permille).div_ceil(1000).max(1);
        let mut below = 0;
        let reached = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        reached.map_or(0, |bits| if bits == 0 { 0 } else { 1 << (bits - 1) })
    }

    /// How the values are distributed.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.at(1),
            p1: self.at(10),
            p5: self.at(50),
            p10: self.at(100),
            p50: self.at(500),
            p90: self.at(900),
            p99: self.at(990),
            p99_9: self.at(999),
        }
    }
}

/// A distribution in nine numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples, median {}, 99% {}", self.samples, self.p50, self.p99)
    }
}

/// Histograms by name, shown as one line each.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart(Vec<(String, Histogram)>);

impl AsciiChart {
    /// Without histograms.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[allow(clippy::should_implement_trait)]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> Self {
        self.0.push((name.into(), histogram));
        self
    }

    /// The lines.
    pub fn detailed(&self) -> String {
        self.0.iter().map(|(name, histogram)| format!("{name}: {}\n", histogram.percentile_stats())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_found_by_power_of_two() {
        let mut histogram = Histogram::<()>::new();
        histogram.record_n(1, 90);
        histogram.record_n(1000, 10);
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, stats.p50, stats.p90, stats.p99), (100, 1, 1, 512));
        assert_eq!(Histogram::<()>::new().percentile_stats().p50, 0);
    }
}
