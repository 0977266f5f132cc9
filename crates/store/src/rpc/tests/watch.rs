//! Watches through the wire.

use super::local::{Served, serve};
use crate::rpc::Limits;
use etcd::{
    client::{Changes, Error, Watcher},
    etcdserverpb::{
        CompactionRequest, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, WatchCancelRequest, WatchCreateRequest, WatchRequest,
        request_op::Request, watch_client::WatchClient, watch_create_request::FilterType, watch_request::RequestUnion,
    },
    mvccpb::event::EventType,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

async fn put(served: &Served, key: &str, value: &str) -> i64 {
    let request = PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() };
    served.client.put(request).await.unwrap().header.unwrap().revision
}

fn prefix(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest { key: "/a/".into(), range_end: "/a0".into(), start_revision, ..Default::default() }
}

async fn next(watcher: &mut Watcher) -> Changes {
    tokio::time::timeout(Duration::from_secs(10), watcher.next()).await.expect("changes in time").unwrap()
}

fn revisions(changes: &Changes) -> Vec<i64> {
    changes.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision).collect()
}

#[tokio::test]
async fn past_and_present_arrive_in_order_without_gap() {
    let served = serve(Limits::default()).await;
    for number in 0..50 {
        put(&served, if number % 2 == 0 { "/a/x" } else { "/b/x" }, "v").await;
    }
    let mut watcher = served.client.watch(prefix(2));
    let mut seen = revisions(&next(&mut watcher).await);
    for _ in 0..10 {
        put(&served, "/a/y", "v").await;
    }
    while seen.len() < 35 {
        seen.extend(revisions(&next(&mut watcher).await));
    }
    let expected: Vec<i64> = (2..52).step_by(2).chain(52..62).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_transaction_arrives_as_one() {
    let served = serve(Limits::default()).await;
    let mut watcher = served.client.watch(prefix(2));
    let put = |key: String| Some(Request::RequestPut(PutRequest { key: key.into(), ..Default::default() }));
    let ops = (0..100).map(|number| RequestOp { request: put(format!("/a/{number}")) });
    served.client.txn(TxnRequest { success: ops.collect(), ..Default::default() }).await.unwrap();
    assert_eq!(next(&mut watcher).await.events.len(), 100);
}

#[tokio::test]
async fn events_carry_the_pair_before_and_filters_leave_kinds_out() {
    let served = serve(Limits::default()).await;
    let deletions = WatchCreateRequest { filters: vec![FilterType::Noput as i32], prev_kv: true, ..prefix(2) };
    let (mut all, mut deletions) = (served.client.watch(prefix(2)), served.client.watch(deletions));
    put(&served, "/a/x", "one").await;
    let delete = DeleteRangeRequest { key: "/a/x".into(), ..Default::default() };
    served.client.delete_range(delete).await.unwrap();
    let mut seen = next(&mut all).await.events;
    while seen.len() < 2 {
        seen.extend(next(&mut all).await.events);
    }
    assert!(seen.iter().all(|event| event.prev_kv.is_none()));
    let event = next(&mut deletions).await.events.remove(0);
    assert_eq!((event.r#type(), event.prev_kv.unwrap().value), (EventType::Delete, "one".into()));
    let kv = event.kv.unwrap();
    assert_eq!((&kv.key[..], kv.mod_revision, kv.create_revision, kv.version), (&b"/a/x"[..], 3, 0, 0));
}

#[tokio::test]
async fn a_watch_below_the_compacted_revision_is_cancelled_with_it() {
    let served = serve(Limits::default()).await;
    for _ in 0..5 {
        put(&served, "/a/x", "v").await;
    }
    served.client.compact(CompactionRequest { revision: 5, physical: false }).await.unwrap();
    // First what is in memory, then what a restarted member would read from disk.
    for _ in 0..2 {
        let error = served.client.watch(prefix(3)).next().await.unwrap_err();
        assert!(matches!(error, Error::Compacted { compact_revision: 5 }));
        let mut allowed = served.client.watch(prefix(5));
        assert_eq!(revisions(&next(&mut allowed).await), [5, 6]);
        served.forget_recent();
    }
}

#[tokio::test]
async fn progress_says_how_far_the_stream_is() {
    let served = serve(Limits::default()).await;
    put(&served, "/b/x", "v").await;
    let mut watcher = served.client.watch(prefix(0));
    watcher.request_progress();
    assert_eq!(next(&mut watcher).await, Changes { revision: 2, events: vec![] });
    assert_eq!(watcher.next_revision(), 3);
}

#[tokio::test]
async fn idle_watchers_that_ask_for_it_are_told_progress() {
    let served = serve(Limits { progress_interval: Duration::from_millis(20), ..Limits::default() }).await;
    put(&served, "/b/x", "v").await;
    let mut watcher = served.client.watch(WatchCreateRequest { progress_notify: true, ..prefix(0) });
    assert_eq!(next(&mut watcher).await, Changes { revision: 2, events: vec![] });
}

#[tokio::test]
async fn large_revisions_are_fragmented_on_the_wire_and_whole_at_the_client() {
    let served = serve(Limits { request_bytes: 64 << 20, ..Limits::default() }).await;
    let put =
        |key: String| Some(Request::RequestPut(PutRequest { key: key.into(), value: vec![0; 100 << 10].into(), ..Default::default() }));
    let ops = (0..30).map(|number| RequestOp { request: put(format!("/a/{number}")) });
    let request = TxnRequest { success: ops.collect(), ..Default::default() };
    let mut watcher = served.client.watch(prefix(2));
    served.client.txn(request).await.unwrap();
    assert_eq!(next(&mut watcher).await.events.len(), 30);
}

#[tokio::test]
async fn one_stream_carries_many_watchers() {
    let served = serve(Limits::default()).await;
    let (requests, receiver) = mpsc::channel(8);
    let send = async |union| requests.send(WatchRequest { request_union: Some(union) }).await.unwrap();
    let mut client = WatchClient::connect(served.url.clone()).await.unwrap();
    let created = |id| RequestUnion::CreateRequest(WatchCreateRequest { watch_id: id, ..prefix(0) });
    for id in [0, 0, 9, 9] {
        send(created(id)).await;
    }
    let mut responses = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut ids = Vec::new();
    for _ in 0..4 {
        let response = responses.message().await.unwrap().unwrap();
        assert!(response.created);
        ids.push((response.watch_id, response.canceled));
    }
    assert_eq!(ids, [(0, false), (1, false), (9, false), (-1, true)]);
    send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 1 })).await;
    let cancelled = responses.message().await.unwrap().unwrap();
    assert_eq!((cancelled.watch_id, cancelled.canceled), (1, true));
    put(&served, "/a/x", "v").await;
    let mut told = [responses.message().await.unwrap().unwrap(), responses.message().await.unwrap().unwrap()];
    told.sort_by_key(|response| response.watch_id);
    assert_eq!(told.iter().map(|response| (response.watch_id, response.events.len())).collect::<Vec<_>>(), [(0, 1), (9, 1)]);
}

#[tokio::test]
async fn a_watcher_that_does_not_read_costs_the_others_nothing_and_misses_nothing() {
    let served = serve(Limits::default()).await;
    let (mut slow, mut quick) = (served.client.watch(prefix(2)), served.client.watch(prefix(2)));
    put(&served, "/a/x", "first").await;
    next(&mut slow).await;
    let value = "v".repeat(64 << 10);
    for _ in 0..600 {
        put(&served, "/a/x", &value).await;
    }
    let mut seen = 0;
    while seen < 601 {
        seen += next(&mut quick).await.events.len();
    }
    let mut seen = vec![2];
    while seen.len() < 601 {
        seen.extend(revisions(&next(&mut slow).await));
    }
    assert_eq!(seen, (2..603).collect::<Vec<_>>());
}
