//! etcd's metrics: counters kept as things happen, gauges read at each scrape.

use std::{fmt, sync::Arc, time::Duration};

use component::metrics::Registry;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
};

use crate::raft::RaftNode;

/// What is counted while the member runs; clones share the numbers.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    wal_fsync: Histogram,
    backend_commit: Histogram,
    /// Proposals that got no outcome.
    pub(crate) proposals_failed: Counter,
    /// Read barriers that were not passed.
    pub(crate) read_indexes_failed: Counter,
    /// Leaders this member saw, its first one aside.
    pub(crate) leader_changes: Counter,
}

/// A value read at a scrape: name, help, value.
type Sample = (&'static str, &'static str, f64);

impl Metrics {
    /// Registers what is counted.
    pub(crate) fn register(registry: &Registry) -> Self {
        let metrics = Self::new();
        let counters: [(&str, &str, &Counter); 3] = [
            ("etcd_server_proposals_failed", "The total number of failed proposals seen", &metrics.proposals_failed),
            ("etcd_server_read_indexes_failed", "The total number of failed read indexes seen", &metrics.read_indexes_failed),
            ("etcd_server_leader_changes_seen", "The number of leader changes seen", &metrics.leader_changes),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let help = "The latency distributions of fsync called by WAL";
        registry.register("etcd_disk_wal_fsync_duration_seconds", help, metrics.wal_fsync.clone());
        let help = "The latency distributions of commit called by backend";
        registry.register("etcd_disk_backend_commit_duration_seconds", help, metrics.backend_commit.clone());
        metrics
    }

    /// Counts without showing.
    pub(crate) fn new() -> Self {
        // etcd's: 1 ms, doubled up to 8 s.
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        Self {
            wal_fsync: histogram(),
            backend_commit: histogram(),
            proposals_failed: Counter::default(),
            read_indexes_failed: Counter::default(),
            leader_changes: Counter::default(),
        }
    }

    /// The raft log was synced.
    pub(crate) fn wal_synced(&self, took: Duration) {
        self.wal_fsync.observe(took.as_secs_f64());
    }

    /// A batch of state was written.
    pub(crate) fn committed(&self, took: Duration) {
        self.backend_commit.observe(took.as_secs_f64());
    }
}

/// Registers what is read at each scrape.
pub(crate) fn register_gauges(registry: &Registry, node: &RaftNode, quota: Option<u64>) {
    let id = format!("{:x}", node.identity().member_id);
    register_label(
        registry,
        "etcd_server_id",
        "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID",
        "server_id",
        id,
    );
    let node = node.clone();
    registry.register_collector(Box::new(Sampler(Arc::new(move || sample(&node, quota)))));
}

fn sample(node: &RaftNode, quota: Option<u64>) -> Vec<Sample> {
    let progress = node.progress();
    let flag = |value| f64::from(u8::from(value));
    let database = node.state().database();
    let (size, in_use) = (database.size().unwrap_or_default() as f64, database.size_in_use().unwrap_or_default() as f64);
    vec![
        ("etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not", flag(progress.leader != 0)),
        ("etcd_server_is_leader", "Whether or not this member is a leader. 1 if is, 0 otherwise", flag(progress.leads)),
        ("etcd_server_is_learner", "Whether or not this member is a learner. 1 if is, 0 otherwise", flag(progress.learner)),
        ("etcd_server_proposals_committed_total", "The total number of consensus proposals committed", progress.committed as f64),
        ("etcd_server_proposals_applied_total", "The total number of consensus proposals applied", progress.applied as f64),
        ("etcd_server_proposals_pending", "The current number of pending proposals to commit", progress.pending as f64),
        ("etcd_server_quota_backend_bytes", "Current backend storage quota size in bytes", quota.unwrap_or_default() as f64),
        ("etcd_mvcc_db_total_size_in_bytes", "Total size of the underlying database physically allocated in bytes", size),
        ("etcd_mvcc_db_total_size_in_use_in_bytes", "Total size of the underlying database logically in use in bytes", in_use),
        ("etcd_debugging_mvcc_current_revision", "The current revision of store", node.state().revision() as f64),
    ]
}

/// Registers gauges that are 1 and say something by a label, as `etcd_server_version` does.
pub(crate) fn register_label(registry: &Registry, name: &str, help: &str, label: &'static str, value: String) {
    let family = Family::<[(&'static str, String); 1], Gauge>::default();
    family.get_or_create(&[(label, value)]).set(1);
    registry.register(name, help, family);
}

struct Sampler(Arc<dyn Fn() -> Vec<Sample> + Send + Sync>);

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampler")
    }
}

impl Collector for Sampler {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help, value) in (self.0)() {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
