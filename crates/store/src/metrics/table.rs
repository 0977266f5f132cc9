//! Every metric that is kept while the member runs: etcd's names, labels and buckets. What is read at a scrape is in
//! [`super::gauges`], calls by method in [`crate::rpc`].

use component::metrics::Registry;
use prometheus_client::metrics::{
    counter::Counter,
    family::{Family, MetricConstructor},
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

/// Labels by name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Labels of which all values are known beforehand.
pub(crate) type KnownLabels<const N: usize> = [(&'static str, &'static str); N];

/// Buckets of a histogram: the first bound, the factor between two, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets(f64, f64, u16);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(self.0, self.1, self.2))
    }
}

macro_rules! kind {
    (counter) => { Counter };
    (gauge) => { Gauge };
    (histogram) => { Histogram };
    (counters) => { Family<Labels, Counter> };
    (gauges) => { Family<Labels, Gauge> };
    (histograms) => { Family<Labels, Histogram, Buckets> };
    (applies) => { Family<KnownLabels<3>, Histogram, Buckets> };
    (reads) => { Family<KnownLabels<1>, Histogram, Buckets> };
}

macro_rules! make {
    (histogram $buckets:expr) => {
        $buckets.new_metric()
    };
    ($kind:ident $buckets:expr) => {
        Family::new_with_constructor($buckets)
    };
    ($kind:ident) => {
        Default::default()
    };
}

macro_rules! register {
    (counter $registry:ident $name:literal $help:literal $metric:expr) => {
        $registry.register_counter($name, $help, $metric)
    };
    (counters $registry:ident $name:literal $help:literal $metric:expr) => {
        $registry.register_counter($name, $help, $metric)
    };
    ($kind:ident $registry:ident $name:literal $help:literal $metric:expr) => {
        $registry.register($name, $help, $metric)
    };
}

macro_rules! table {
    ($($kind:ident $field:ident $(($start:literal, $factor:literal, $count:literal))? $name:literal $help:literal;)*) => {
        /// What is counted while the member runs.
        #[derive(Debug)]
        pub struct Table {
            $(#[doc = $help] pub(crate) $field: kind!($kind),)*
        }

        impl Table {
            /// Counts without showing.
            pub(super) fn new() -> Self {
                Self { $($field: make!($kind $(Buckets($start, $factor, $count))?),)* }
            }

            /// Registers what is counted.
            pub(super) fn register(registry: &Registry) -> Self {
                let table = Self::new();
                $(register!($kind registry $name $help table.$field.clone());)*
                table
            }
        }
    };
}

table! {
    histogram wal_fsync (0.001, 2.0, 14) "etcd_disk_wal_fsync_duration_seconds" "The latency distributions of fsync called by WAL";
    histogram backend_commit (0.001, 2.0, 14) "etcd_disk_backend_commit_duration_seconds" "The latency distributions of commit called by backend";
    histogram defrag (0.1, 2.0, 13) "etcd_disk_backend_defrag_duration_seconds" "The latency distribution of backend defragmentation";
    gauge defrag_inflight "etcd_disk_defrag_inflight" "Whether or not defrag is active on the member. 1 means active, 0 means not";
    histogram snapshot_sent (0.01, 2.0, 17) "etcd_disk_backend_snapshot_duration_seconds" "The latency distribution of backend snapshots";
    histogram snapshot_saved (0.1, 2.0, 10) "etcd_snap_db_save_total_duration_seconds" "The total latency distributions of v3 snapshot save";
    histogram snapshot_fsync (0.001, 2.0, 14) "etcd_snap_fsync_duration_seconds" "The latency distributions of fsync called by snap";

    counter ranges "etcd_mvcc_range_total" "Total number of ranges seen by this member";
    counter puts "etcd_mvcc_put_total" "Total number of puts seen by this member";
    counter deletes "etcd_mvcc_delete_total" "Total number of deletes seen by this member";
    counter txns "etcd_mvcc_txn_total" "Total number of txns seen by this member";
    gauge put_size "etcd_debugging_mvcc_total_put_size_in_bytes" "The total size of put kv pairs seen by this member";
    histogram hash (0.01, 2.0, 15) "etcd_mvcc_hash_duration_seconds" "The latency distribution of storage hash operation";
    histogram hash_rev (0.01, 2.0, 15) "etcd_mvcc_hash_rev_duration_seconds" "The latency distribution of storage hash by revision operation";
    gauge watch_streams "etcd_debugging_mvcc_watch_stream_total" "Total number of watch streams";
    counter events "etcd_debugging_mvcc_events_total" "Total number of events sent by this member";
    gauge pending_events "etcd_debugging_mvcc_pending_events_total" "Total number of pending events to be sent";
    histogram compaction_pause (1.0, 2.0, 13) "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds" "Bucketed histogram of db compaction pause duration";
    histogram compaction_total (100.0, 2.0, 14) "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds" "Bucketed histogram of db compaction total duration";
    gauge compaction_last "etcd_debugging_mvcc_db_compaction_last" "The unix time of the last db compaction. Resets to 0 on start";
    counter compaction_keys "etcd_debugging_mvcc_db_compaction_keys_total" "Total number of db keys compacted";

    counter leases_granted "etcd_debugging_lease_granted_total" "The total number of granted leases";
    counter leases_revoked "etcd_debugging_lease_revoked_total" "The total number of revoked leases";
    counter leases_renewed "etcd_debugging_lease_renewed_total" "The number of renewed leases seen by the leader";
    counter leases_expired "etcd_debugging_server_lease_expired_total" "The total number of expired leases";
    histogram lease_ttl (1.0, 2.0, 24) "etcd_debugging_lease_ttl_total" "Bucketed histogram of lease TTLs";

    counter proposals_failed "etcd_server_proposals_failed_total" "The total number of failed proposals seen";
    counter read_indexes_failed "etcd_server_read_indexes_failed_total" "The total number of failed read indexes seen";
    counter slow_read_indexes "etcd_server_slow_read_indexes_total" "The total number of pending read indexes not in sync with leader's or timed out read index requests";
    counter slow_applies "etcd_server_slow_apply_total" "The total number of slow apply requests (likely overloaded from slow disk)";
    counter leader_changes "etcd_server_leader_changes_seen_total" "The number of leader changes seen";
    counter heartbeats_failed "etcd_server_heartbeat_send_failures_total" "The total number of leader heartbeat send failures (likely overloaded from slow disk)";
    gauge snapshot_applying "etcd_server_snapshot_apply_in_progress_total" "1 if the server is applying the incoming snapshot. 0 if none";
    counter healthy "etcd_server_health_success" "The total number of successful health checks";
    counter unhealthy "etcd_server_health_failures" "The total number of failed health checks";
    gauges health_check "etcd_server_healthcheck" "The result of each kind of healthcheck";
    counters health_checks "etcd_server_healthchecks_total" "The total number of each kind of healthcheck";
    counters client_requests "etcd_server_client_requests_total" "The total number of client requests per client version";
    applies apply_duration (0.0001, 2.0, 20) "etcd_server_apply_duration_seconds" "The latency distributions of v2 apply called by backend";
    reads range_duration (0.0001, 2.0, 20) "etcd_server_range_duration_seconds" "The latency distributions of txn.Range";
    gauges feature_enabled "etcd_server_feature_enabled" "Whether or not a feature is enabled. 1 is enabled, 0 is not";
    counter promotions "etcd_server_learner_promote_successes" "The total number of successful learner promotions while this member is leader";
    counters promotions_failed "etcd_server_learner_promote_failures" "The total number of failed learner promotions (likely learner not ready) while this member is leader";

    counter client_sent "etcd_network_client_grpc_sent_bytes_total" "The total number of bytes sent to grpc clients";
    counter client_received "etcd_network_client_grpc_received_bytes_total" "The total number of bytes received from grpc clients";
    counters stream_failures "etcd_network_server_stream_failures_total" "The total number of stream failures from the local server";
    counters peer_sent "etcd_network_peer_sent_bytes_total" "The total number of bytes sent to peers";
    counters peer_received "etcd_network_peer_received_bytes_total" "The total number of bytes received from peers";
    counters peer_sent_failures "etcd_network_peer_sent_failures_total" "The total number of send failures from peers";
    histograms round_trip (0.0001, 2.0, 16) "etcd_network_peer_round_trip_time_seconds" "Round-Trip-Time histogram between peers";
    gauges active_peers "etcd_network_active_peers" "The current number of active peer connections";
    counters disconnected_peers "etcd_network_disconnected_peers_total" "The total number of disconnected peers";
    counters snapshots_sent "etcd_network_snapshot_send_success" "Total number of successful snapshot sends";
    counters snapshots_unsent "etcd_network_snapshot_send_failures" "Total number of snapshot send failures";
    gauges snapshots_sending "etcd_network_snapshot_send_inflights_total" "Total number of inflight snapshot sends";
    histograms snapshot_send (0.1, 2.0, 10) "etcd_network_snapshot_send_total_duration_seconds" "Total latency distributions of v3 snapshot sends";
    counters snapshots_received "etcd_network_snapshot_receive_success" "Total number of successful snapshot receives";
    counters snapshots_unreceived "etcd_network_snapshot_receive_failures" "Total number of snapshot receive failures";
    gauges snapshots_receiving "etcd_network_snapshot_receive_inflights_total" "Total number of inflight snapshot receives";
    histograms snapshot_receive (0.1, 2.0, 10) "etcd_network_snapshot_receive_total_duration_seconds" "Total latency distributions of v3 snapshot receives";
}
