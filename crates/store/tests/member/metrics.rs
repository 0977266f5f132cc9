//! What dashboards and alerts ask of a live member.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Cluster, Member, eventually, get, put};

/// What the dashboard and the alerts of etcd's mixin read, as of etcd 3.6.
const ASKED: [&str; 27] = [
    "etcd_disk_backend_commit_duration_seconds_bucket",
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "etcd_network_peer_received_bytes_total{From=",
    "etcd_network_peer_round_trip_time_seconds_bucket{le=\"0.0001\",To=",
    "etcd_network_peer_sent_bytes_total{To=",
    "etcd_network_peer_sent_failures_total{To=",
    "etcd_server_has_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_failed_total",
    "etcd_server_proposals_pending",
    "etcd_server_quota_backend_bytes",
    "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}",
    "grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}",
    "grpc_server_started_total{grpc_method=\"LeaseKeepAlive\",grpc_service=\"etcdserverpb.Lease\",grpc_type=\"bidi_stream\"}",
    "grpc_server_handling_seconds_bucket{le=\"0.005\",grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}",
    "grpc_server_msg_received_total{",
    "grpc_server_msg_sent_total{",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
];

async fn scrape(member: &Member) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", member.client_port)).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The value of a metric without labels, or with just these.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_etcds_dashboard_and_alerts_is_there() {
    let mut cluster = Cluster::start_with(3, &["--metrics", "extensive"]).await;
    let leader = cluster.leader().await;
    put(&mut cluster.members[leader].kv(), "key", "value").await.unwrap();
    cluster.members[(leader + 1) % 3].kill();
    let member = &cluster.members[leader];
    eventually("all metrics are there", async || {
        let text = scrape(member).await;
        let missing: Vec<_> = ASKED.iter().filter(|name| !text.lines().any(|line| line.starts_with(**name))).collect();
        if !missing.is_empty() {
            eprintln!("missing: {missing:?}");
        }
        missing.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_count_what_happens() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    for number in 0..5 {
        put(&mut member.kv(), &format!("k{number}"), "value").await.unwrap();
    }
    assert_eq!(get(&mut member.kv(), "k1").await.unwrap().unwrap(), "value");
    assert!(put(&mut member.kv(), "", "").await.is_err());
    let text = scrape(member).await;
    let value = |name: &str| value(&text, name).unwrap_or_else(|| panic!("{name} in {text}"));
    assert_eq!(value("etcd_mvcc_put_total"), 5.0);
    assert_eq!(value("etcd_mvcc_range_total"), 1.0);
    assert_eq!(value("etcd_debugging_mvcc_keys_total"), 5.0);
    assert_eq!(value("etcd_debugging_mvcc_total_put_size_in_bytes"), 35.0);
    assert_eq!(value("etcd_debugging_mvcc_current_revision"), 6.0);
    let put_ended = |code| {
        format!(
            "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}}"
        )
    };
    assert_eq!(value(&put_ended("OK")), 5.0);
    assert_eq!(value(&put_ended("InvalidArgument")), 1.0);
    let put_messages =
        |what| format!("grpc_server_msg_{what}_total{{grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}}");
    assert_eq!((value(&put_messages("received")), value(&put_messages("sent"))), (6.0, 5.0));
    assert!(value("etcd_network_client_grpc_received_bytes_total") > 50.0);
    assert!(text.contains("etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"unary\"}"));
    assert!(!text.contains("grpc_server_handling_seconds"), "only with --metrics extensive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_its_client_drops_counts_as_ended_and_leaves_nothing_pending() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    let labels = "grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"";
    let open = async || {
        let text = scrape(member).await;
        let started = value(&text, &format!("grpc_server_started_total{{{labels}}}")).unwrap();
        let ended: f64 = text
            .lines()
            .filter(|line| line.starts_with("grpc_server_handled_total") && line.contains(labels))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        (
            started - ended,
            value(&text, "etcd_debugging_mvcc_watcher_total").unwrap(),
            value(&text, "etcd_debugging_mvcc_pending_events_total").unwrap(),
        )
    };
    let client = etcd::client::Client::connect(etcd::client::Config::new([member.url()])).unwrap();
    put(&mut member.kv(), "key", "value").await.unwrap();
    let create = etcd::etcdserverpb::WatchCreateRequest { key: "key".into(), start_revision: 2, ..Default::default() };
    let mut watcher = client.watch(create);
    assert!(!tokio::time::timeout(Duration::from_secs(10), watcher.next()).await.unwrap().unwrap().events.is_empty());
    assert_eq!(open().await, (1.0, 1.0, 0.0));
    drop(watcher);
    eventually("it is gone", async || (open().await == (0.0, 0.0, 0.0)).then_some(())).await;
}
