//! kube-scheduler's metrics.

use component::metrics::Registry;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::queue::Counts;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Outcome {
    result: &'static str,
    profile: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Place {
    queue: &'static str,
}

/// The counters; clones share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    attempts: Family<Outcome, Counter>,
    durations: Histogram,
    pending: Family<Place, Gauge>,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            durations: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            pending: Family::default(),
        };
        registry.register("scheduler_schedule_attempts", "Number of attempts to schedule pods, by the result", metrics.attempts.clone());
        registry.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds",
            metrics.durations.clone(),
        );
        registry.register("scheduler_pending_pods", "Number of pending pods, by the queue type", metrics.pending.clone());
        metrics
    }

    /// One attempt ended as `result` after so many seconds: `scheduled`, `unschedulable` or `error`.
    pub(crate) fn attempt(&self, result: &'static str, seconds: f64) {
        self.attempts.get_or_create(&Outcome { result, profile: "default-scheduler" }).inc();
        self.durations.observe(seconds);
    }

    pub(crate) fn pending(&self, counts: Counts) {
        let places =
            [("active", counts.active), ("backoff", counts.backoff), ("unschedulable", counts.unschedulable), ("gated", counts.gated)];
        for (queue, count) in places {
            self.pending.get_or_create(&Place { queue }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
