//! What is read at each scrape.

use std::{fmt, sync::Arc};

use component::{metrics::Registry, process_metrics};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        MetricType,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
};

use super::Labels;
use crate::{apply::alarm::Alarms, command::AlarmKind, http::alarm_name, raft::RaftNode};

/// A value read at a scrape: name, help, value.
type Sample = (&'static str, &'static str, f64);

/// Values with labels: name, help, and each value with its labels.
type Labelled = (&'static str, &'static str, Vec<(Labels, f64)>);

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
    registry.register_collector(Box::new(Sampler(Arc::new(Source { node: node.clone(), quota }))));
}

/// Registers gauges that are 1 and say something by a label, as `etcd_server_version` does.
pub(crate) fn register_label(registry: &Registry, name: &str, help: &str, label: &'static str, value: String) {
    let family = Family::<[(&'static str, String); 1], Gauge>::default();
    family.get_or_create(&[(label, value)]).set(1);
    registry.register(name, help, family);
}

struct Source {
    node: RaftNode,
    quota: Option<u64>,
}

impl Source {
    fn samples(&self) -> Vec<Sample> {
        [self.server(), self.store()].concat()
    }

    fn server(&self) -> Vec<Sample> {
        let progress = self.node.progress();
        let flag = |value| f64::from(u8::from(value));
        let files = |count: Option<f64>| count.unwrap_or_default();
        vec![
            ("etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not", flag(progress.leader != 0)),
            ("etcd_server_is_leader", "Whether or not this member is a leader. 1 if is, 0 otherwise", flag(progress.leads)),
            ("etcd_server_is_learner", "Whether or not this member is a learner. 1 if is, 0 otherwise", flag(progress.learner)),
            ("etcd_server_proposals_committed_total", "The total number of consensus proposals committed", progress.committed as f64),
            ("etcd_server_proposals_applied_total", "The total number of consensus proposals applied", progress.applied as f64),
            ("etcd_server_proposals_pending", "The current number of pending proposals to commit", progress.pending as f64),
            ("etcd_server_quota_backend_bytes", "Current backend storage quota size in bytes", self.quota.unwrap_or_default() as f64),
            ("etcd_disk_wal_write_bytes_total", "Total number of bytes written in WAL", self.node.log().appended_bytes() as f64),
            ("os_fd_used", "The number of used file descriptors", files(process_metrics::open_files())),
            ("os_fd_limit", "The file descriptor limit", files(process_metrics::most_open_files())),
        ]
    }

    fn store(&self) -> Vec<Sample> {
        let (state, database) = (self.node.state(), self.node.state().database());
        let (size, in_use) = (database.size().unwrap_or_default() as f64, database.size_in_use().unwrap_or_default() as f64);
        let (watchers, behind) = state.hub().watchers();
        let compacted = state.read(|_, revisions| revisions.compacted).unwrap_or_default();
        vec![
            ("etcd_mvcc_db_total_size_in_bytes", "Total size of the underlying database physically allocated in bytes", size),
            ("etcd_mvcc_db_total_size_in_use_in_bytes", "Total size of the underlying database logically in use in bytes", in_use),
            ("etcd_mvcc_db_open_read_transactions", "The number of currently open read transactions", state.reading() as f64),
            ("etcd_debugging_auth_revision", "The current revision of auth store", state.policy().revision() as f64),
            ("etcd_debugging_mvcc_current_revision", "The current revision of store", state.revision() as f64),
            ("etcd_debugging_mvcc_compact_revision", "The revision of the last compaction in store", compacted as f64),
            ("etcd_debugging_mvcc_keys_total", "Total number of keys", state.keys() as f64),
            ("etcd_debugging_mvcc_watcher_total", "Total number of watchers", watchers as f64),
            ("etcd_debugging_mvcc_slow_watcher_total", "Total number of unsynced slow watchers", behind as f64),
        ]
    }

    fn labelled(&self) -> [Labelled; 2] {
        let me = self.node.identity().member_id;
        let ids = self.node.members().into_iter().map(|(id, ..)| id).filter(|id| *id != me);
        let peers = ids.map(|id| (vec![("Local", format!("{me:x}")), ("Remote", format!("{id:x}"))], 1.0)).collect();
        let alarms = self.node.state().read(|read, _| Alarms::read(read)).and_then(|alarms| alarms).unwrap_or_default();
        let alarm = |(member, kind): (u64, i32)| {
            let name = AlarmKind::try_from(kind).map_or("UNKNOWN", alarm_name);
            (vec![("alarm_type", name.to_owned()), ("server_id", format!("{member:x}"))], 1.0)
        };
        let help =
            "Alarms for every member in cluster. 1 for 'server_id' label with current ID. 2 for 'alarm_type' label with type of this alarm";
        [
            ("etcd_network_known_peers", "The current number of known peers", peers),
            ("etcd_debugging_server_alarms", help, alarms.0.into_iter().map(alarm).collect()),
        ]
    }
}

struct Sampler(Arc<Source>);

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampler")
    }
}

impl Collector for Sampler {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (name, help, value) in self.0.samples() {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, values) in self.0.labelled().into_iter().filter(|(.., values)| !values.is_empty()) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in values {
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
