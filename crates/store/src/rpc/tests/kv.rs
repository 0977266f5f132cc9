//! Keys through the wire.

use super::local::{Served, serve};
use crate::{
    command::{Alarm, AlarmKind, Command},
    metrics::Metrics,
    node::Node,
    rpc::Limits,
    upkeep::compactor::{self, Pace},
};
use bytes::Bytes;
use etcd::{
    client::Error,
    etcdserverpb::{
        CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        compare::{CompareResult, CompareTarget, TargetUnion},
        request_op::Request,
        response_op::Response,
    },
};
use tokio_util::sync::CancellationToken;
use tonic::Code;

async fn put(served: &Served, key: &'static str, value: &'static str) -> i64 {
    let request = PutRequest { key: key.into(), value: value.into(), ..Default::default() };
    served.client.put(request).await.unwrap().header.unwrap().revision
}

fn get(key: &'static str) -> RangeRequest {
    RangeRequest { key: key.into(), ..Default::default() }
}

fn refused(error: Error) -> (Code, String) {
    (error.code(), error.to_string())
}

#[tokio::test]
async fn a_fresh_store_is_at_revision_one_and_its_first_write_at_two() {
    let served = serve(Limits::default()).await;
    let empty = served.client.range(get("k")).await.unwrap();
    let header = empty.header.unwrap();
    assert_eq!((header.revision, header.cluster_id, header.member_id, header.raft_term), (1, 7, 1, 2));
    assert_eq!(put(&served, "k", "v").await, 2);
    let found = served.client.range(get("k")).await.unwrap();
    let kv = &found.kvs[0];
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version, &kv.value[..]), (2, 2, 1, &b"v"[..]));
    assert_eq!(found.count, 1);
}

#[tokio::test]
async fn refusals_are_etcds_to_the_letter() {
    let served = serve(Limits::default()).await;
    let client = &served.client;
    let (invalid, range) = (Code::InvalidArgument, Code::OutOfRange);
    let error = client.range(get("")).await.unwrap_err();
    assert_eq!(refused(error), (invalid, "etcdserver: key is not provided".into()));
    let error = client.range(RangeRequest { revision: 9, ..get("k") }).await.unwrap_err();
    assert_eq!(refused(error), (range, "etcdserver: mvcc: required revision is a future revision".into()));
    let error = client.range(RangeRequest { sort_order: 7, ..get("k") }).await.unwrap_err();
    assert_eq!(refused(error), (invalid, "etcdserver: invalid sort option".into()));
    let large = PutRequest { key: "k".into(), value: vec![0; 3 << 19].into(), ..Default::default() };
    let error = client.put(large).await.unwrap_err();
    assert_eq!(refused(error), (invalid, "etcdserver: request is too large".into()));
    let leased = PutRequest { key: "k".into(), lease: 5, ..Default::default() };
    let error = client.put(leased).await.unwrap_err();
    assert_eq!(refused(error), (Code::NotFound, "etcdserver: requested lease not found".into()));
    let absent = PutRequest { key: "k".into(), ignore_value: true, ..Default::default() };
    let error = client.put(absent).await.unwrap_err();
    assert_eq!(refused(error), (invalid, "etcdserver: key not found".into()));
    let error = client.compact(CompactionRequest { revision: 9, physical: false }).await.unwrap_err();
    assert_eq!(refused(error), (range, "etcdserver: mvcc: required revision is a future revision".into()));
}

#[tokio::test]
async fn compaction_refuses_the_past_and_keeps_the_present() {
    let served = serve(Limits::default()).await;
    put(&served, "k", "one").await;
    put(&served, "k", "two").await;
    put(&served, "k", "three").await;
    let past = RangeRequest { revision: 3, ..get("k") };
    assert_eq!(served.client.range(past.clone()).await.unwrap().kvs[0].value, "two");
    let scrubbing = tokio::spawn(compactor::run(served.node.state().clone(), Pace::default(), Metrics::new(), CancellationToken::new()));
    served.client.compact(CompactionRequest { revision: 4, physical: true }).await.unwrap();
    scrubbing.abort();
    assert!(served.client.range(past).await.unwrap_err().is_compacted());
    assert_eq!(served.client.range(RangeRequest { revision: 4, ..get("k") }).await.unwrap().kvs[0].value, "three");
    let again = served.client.compact(CompactionRequest { revision: 4, physical: false }).await;
    assert!(again.unwrap_err().is_compacted());
}

#[tokio::test]
async fn a_transaction_is_one_revision_and_nested_ones_read_its_writes_but_compare_what_was_before() {
    let served = serve(Limits::default()).await;
    let op = |request| RequestOp { request: Some(request) };
    let put = |key: &'static str| op(Request::RequestPut(PutRequest { key: key.into(), ..Default::default() }));
    let read = op(Request::RequestRange(RangeRequest { range_end: "\0".into(), ..get("a") }));
    let compare = Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key: "a".into(),
        target_union: Some(TargetUnion::ModRevision(0)),
        range_end: Bytes::new(),
    };
    let nested = TxnRequest { compare: vec![compare], success: vec![read.clone()], failure: vec![] };
    let request = TxnRequest { compare: vec![], success: vec![put("a"), put("b"), op(Request::RequestTxn(nested))], failure: vec![] };
    let answer = served.client.txn(request).await.unwrap();
    assert!(answer.succeeded);
    assert_eq!(answer.header.unwrap().revision, 2);
    let Some(Response::ResponseTxn(nested)) = &answer.responses[2].response else { panic!("no nested answer") };
    let Some(Response::ResponseRange(read)) = &nested.responses[0].response else { panic!("compare failed") };
    assert_eq!(read.kvs.iter().map(|kv| kv.mod_revision).collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test]
async fn answers_within_a_transaction_tell_the_revision_of_their_moment() {
    let served = serve(Limits::default()).await;
    put(&served, "k", "v").await;
    let op = |request| RequestOp { request: Some(request) };
    let read = || op(Request::RequestRange(get("k")));
    let delete = |key: &'static str| op(Request::RequestDeleteRange(DeleteRangeRequest { key: key.into(), ..Default::default() }));
    let request = TxnRequest { success: vec![read(), delete("absent"), delete("k"), read()], ..Default::default() };
    let answer = served.client.txn(request).await.unwrap();
    let revision = |response: etcd::etcdserverpb::ResponseOp| match response.response {
        Some(Response::ResponseRange(response)) => response.header.unwrap().revision,
        Some(Response::ResponseDeleteRange(response)) => response.header.unwrap().revision,
        other => panic!("{other:?}"),
    };
    assert_eq!(answer.header.unwrap().revision, 3);
    assert_eq!(answer.responses.into_iter().map(revision).collect::<Vec<_>>(), [2, 2, 3, 3]);
}

#[tokio::test]
async fn deleting_answers_with_what_was_there() {
    let served = serve(Limits::default()).await;
    put(&served, "/a/1", "x").await;
    put(&served, "/a/2", "y").await;
    let delete = DeleteRangeRequest { key: "/a/".into(), range_end: "/a0".into(), prev_kv: true };
    let deleted = served.client.delete_range(delete.clone()).await.unwrap();
    assert_eq!((deleted.deleted, deleted.prev_kvs.len(), deleted.header.unwrap().revision), (2, 2, 4));
    let nothing = served.client.delete_range(delete).await.unwrap();
    assert_eq!((nothing.deleted, nothing.header.unwrap().revision), (0, 4));
}

#[tokio::test]
async fn a_limit_leaves_the_count_whole_now_and_in_the_past() {
    let served = serve(Limits::default()).await;
    for number in 0..1500 {
        let request = PutRequest { key: format!("k{number:04}").into(), ..Default::default() };
        served.client.put(request).await.unwrap();
    }
    let delete = DeleteRangeRequest { key: "k0100".into(), range_end: "k0900".into(), ..Default::default() };
    served.client.delete_range(delete).await.unwrap();
    let count = async |key: &'static str, revision, count_only| {
        let request = RangeRequest { range_end: "k1400".into(), limit: 5, revision, count_only, ..get(key) };
        let found = served.client.range(request).await.unwrap();
        assert_eq!((found.more, found.kvs.len()), if count_only { (false, 0) } else { (true, 5) });
        found.count
    };
    for count_only in [false, true] {
        assert_eq!(count("k0", 0, count_only).await, 600);
        assert_eq!(count("k0050", 0, count_only).await, 550);
        assert_eq!(count("k0050", 1501, count_only).await, 1350);
        assert_eq!(count("k0050", 501, count_only).await, 450);
    }
}

#[tokio::test]
async fn answers_beyond_four_megabytes_arrive() {
    let served = serve(Limits::default()).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let request = PutRequest { key: key.into(), value: vec![1; 1 << 20].into(), ..Default::default() };
        served.client.put(request).await.unwrap();
    }
    let all = RangeRequest { range_end: "\0".into(), ..get("a") };
    assert_eq!(served.client.range(all).await.unwrap().kvs.len(), 6);
}

#[tokio::test]
async fn alarms_stand_in_the_way_of_what_they_concern() {
    let served = serve(Limits::default()).await;
    put(&served, "k", "v").await;
    let alarm =
        async |kind: AlarmKind, raised| served.node.propose(Command::Alarm(Alarm { member: 1, kind: kind as i32, raised })).await.unwrap();
    alarm(AlarmKind::NoSpace, true).await;
    let full = served.client.put(PutRequest { key: "k".into(), ..Default::default() }).await.unwrap_err();
    assert_eq!(refused(full), (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded".into()));
    assert_eq!(served.client.range(get("k")).await.unwrap().count, 1);
    let delete = DeleteRangeRequest { key: "k".into(), ..Default::default() };
    assert_eq!(served.client.delete_range(delete).await.unwrap().deleted, 1);
    alarm(AlarmKind::Corrupt, true).await;
    assert_eq!(served.client.range(get("k")).await.unwrap().count, 0);
    let corrupt = served.client.delete_range(DeleteRangeRequest { key: "k".into(), ..Default::default() }).await.unwrap_err();
    assert_eq!(refused(corrupt), (Code::DataLoss, "etcdserver: corrupt cluster".into()));
    alarm(AlarmKind::Corrupt, false).await;
    alarm(AlarmKind::NoSpace, false).await;
    put(&served, "k", "v").await;
}
