//! What clients may cost a member, however many there are and however slow.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use etcd::etcdserverpb::{
    PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest, kv_client::KvClient, request_op::Request,
    watch_client::WatchClient, watch_request::RequestUnion,
};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::Signal,
};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};
use tonic::{Status, transport::Channel};

use crate::support::{Cluster, Member, eventually, get, put, within};

const MIB: u64 = 1 << 20;

/// Resident memory of a member, in bytes.
fn resident(member: &Member) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", member.pid())).unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_idle_connections_cost_little_and_keep_nobody_waiting() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let connections = usize::try_from(most / 4).unwrap().min(3000);
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    put(&mut member.kv(), "key", "value").await.unwrap();
    let before = resident(member);
    let mut idle = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(("127.0.0.1", member.client_port)).await.unwrap();
        // As an HTTP/2 client begins: its preface, and empty settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        idle.push(stream);
    }
    let start = Instant::now();
    put(&mut member.kv(), "key", "value").await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "a put took {:?}", start.elapsed());
    let grown = resident(member).saturating_sub(before);
    assert!(grown < connections as u64 * 64 * 1024, "{connections} connections take {} MiB", grown / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_are_logged_with_where_the_time_went() {
    let flags = ["--warning-apply-duration", "1ns", "--warning-unary-request-duration", "1us"];
    let cluster = Cluster::start_with(1, &flags).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    put(&mut member.kv(), "key", "a secret").await.unwrap();
    let request = RangeRequest { key: "key".into(), ..Default::default() };
    member.kv().range(request).await.unwrap();
    let log = member.logged();
    let line = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(line(&["apply request took too long", "put:<key:", "value_size:8 "]), "{log}");
    assert!(line(&["apply request took too long", "read-only range", "agreement among raft nodes", "range keys"]), "{log}");
    assert!(line(&["request stats", "/etcdserverpb.KV/Put", "request_size"]), "{log}");
    assert!(!log.contains("a secret"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_reads_nothing_costs_no_memory_and_loses_nothing() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    let create = WatchCreateRequest { key: "big".into(), ..Default::default() };
    let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::StreamExt::chain(tokio_stream::iter([create]), tokio_stream::pending());
    let mut client = WatchClient::new(member.channel()).max_decoding_message_size(64 << 20);
    let mut events = client.watch(requests).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().unwrap().created);
    let (writes, value) = (120, Bytes::from(vec![7; MIB as usize]));
    for _ in 0..writes {
        let request = PutRequest { key: "big".into(), value: value.clone(), ..Default::default() };
        member.kv().put(request).await.unwrap();
    }
    let resident = resident(member);
    assert!(resident < 160 * MIB, "{} MiB are resident after {writes} MiB of events", resident / MIB);
    let mut seen = Vec::new();
    while seen.len() < writes {
        let response = events.message().await.unwrap().unwrap();
        seen.extend(response.events.into_iter().map(|event| event.kv.unwrap().version));
    }
    assert_eq!(seen, (1..=writes as i64).collect::<Vec<_>>());
    let request = RangeRequest { key: "big".into(), keys_only: true, ..Default::default() };
    assert_eq!(member.kv().range(request).await.unwrap().into_inner().kvs[0].version, writes as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_stands_still_costs_its_leader_no_memory_and_catches_up() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let (leader, slow) = (&cluster.members[leader], &cluster.members[(leader + 1) % 3]);
    slow.signal(Signal::SIGSTOP);
    let (writes, value) = (120, Bytes::from(vec![7; MIB as usize]));
    for number in 0..writes {
        let request = PutRequest { key: format!("big-{}", number % 4).into(), value: value.clone(), ..Default::default() };
        leader.kv().put(request).await.unwrap();
    }
    let resident = resident(leader);
    slow.signal(Signal::SIGCONT);
    assert!(resident < 160 * MIB, "{} MiB are resident after {writes} MiB that a follower did not take", resident / MIB);
    put(&mut leader.kv(), "last", "1").await.unwrap();
    eventually("it has caught up", async || within(Duration::from_secs(5), get(&mut slow.kv(), "last")).await.ok().flatten()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_can_wait_for_a_quorum_is_refused_at_once_as_etcd_does() {
    const REQUESTS: usize = 14_000;
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    for other in [(leader + 1) % 3, (leader + 2) % 3] {
        cluster.members[other].kill();
    }
    let member = &cluster.members[leader];
    let before = resident(member);
    // On one connection, which takes as many refusals at once.
    let channel = Channel::from_shared(member.url()).unwrap().initial_connection_window_size(64 << 20).connect_lazy();
    let client = KvClient::new(channel);
    let mut asked = JoinSet::new();
    for number in 0..REQUESTS {
        let mut kv = client.clone();
        asked.spawn(async move { put(&mut kv, &format!("key-{number}"), "value").await.unwrap_err() });
    }
    let mut answers = BTreeMap::<String, usize>::new();
    while let Some(status) = asked.join_next().await {
        let status = status.unwrap();
        *answers.entry(format!("{:?}: {}", status.code(), status.message())).or_default() += 1;
    }
    let refused = answers.get("ResourceExhausted: etcdserver: too many requests").copied().unwrap_or_default();
    assert!(refused > 0 && refused < REQUESTS, "{answers:?}");
    let grown = resident(member).saturating_sub(before);
    assert!(grown < 256 * MIB, "{} MiB more", grown / MIB);
    for other in [(leader + 1) % 3, (leader + 2) % 3] {
        cluster.members[other].start();
    }
    eventually("it serves again", async || put(&mut cluster.members[leader].kv(), "after", "1").await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_transactions_cost_bounded_memory_and_too_huge_ones_are_refused() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    // Just below etcd's limits: 128 operations, 1.5 MiB.
    let txn = |client: usize, operations: usize, length: usize| {
        let put = |number| PutRequest { key: format!("{client}-{number}").into(), value: vec![7; length].into(), ..Default::default() };
        let op = |put| RequestOp { request: Some(Request::RequestPut(put)) };
        TxnRequest { success: (0..operations).map(put).map(op).collect(), ..Default::default() }
    };
    let before = resident(member);
    let mut asked = JoinSet::new();
    for client in 0..40 {
        let (mut kv, request) = (member.kv(), txn(client, 128, 12_000));
        asked.spawn(async move {
            for _ in 0..5 {
                kv.txn(request.clone()).await?;
            }
            Ok::<_, Status>(())
        });
    }
    while let Some(done) = asked.join_next().await {
        done.unwrap().unwrap();
    }
    let grown = resident(member).saturating_sub(before);
    assert!(grown < 400 * MIB, "{} MiB more after 300 MiB of transactions", grown / MIB);
    let refused = async |request| member.kv().txn(request).await.unwrap_err().message().to_owned();
    assert_eq!(refused(txn(0, 129, 1)).await, "etcdserver: too many operations in txn request");
    assert_eq!(refused(txn(0, 128, 12_500)).await, "etcdserver: request is too large");
}
