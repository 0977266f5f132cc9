//! The `workqueue_*` metrics, named and bucketed as upstream's.

use std::time::Duration;

use component::metrics::Registry;
use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

type Labels = [(&'static str, String); 1];

fn durations() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 10))
}

/// The metrics of all queues of one component; make one and pass it to every [`super::Queue`].
#[derive(Clone, Debug)]
pub struct Metrics {
    depth: Family<Labels, Gauge>,
    adds: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    queue_duration: Family<Labels, Histogram, fn() -> Histogram>,
    work_duration: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Metrics {
    /// Registers the metrics with `registry`.
    pub fn new(registry: &Registry) -> Self {
        let metrics = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(durations),
            work_duration: Family::new_with_constructor(durations),
        };
        registry.register("workqueue_depth", "Current depth of workqueue", metrics.depth.clone());
        registry.register("workqueue_adds", "Total number of adds handled by workqueue", metrics.adds.clone());
        registry.register("workqueue_retries", "Total number of retries handled by workqueue", metrics.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            metrics.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            metrics.work_duration.clone(),
        );
        metrics
    }

    pub(super) fn queue(&self, name: &str) -> QueueMetrics {
        let labels = [("name", name.to_owned())];
        QueueMetrics {
            depth: self.depth.get_or_create(&labels).clone(),
            adds: self.adds.get_or_create(&labels).clone(),
            retries: self.retries.get_or_create(&labels).clone(),
            queue_duration: self.queue_duration.get_or_create(&labels).clone(),
            work_duration: self.work_duration.get_or_create(&labels).clone(),
        }
    }
}

/// The metrics of one queue.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    pub(super) depth: Gauge,
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

impl QueueMetrics {
    pub(super) fn taken(&self, depth: usize, waited: Duration) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.queue_duration.observe(waited.as_secs_f64());
    }
}
