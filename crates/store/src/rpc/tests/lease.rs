//! Leases through the wire.

use super::local::{Served, serve};
use crate::{lease::expiry, metrics::Metrics, rpc::Limits};
use etcd::etcdserverpb::{PutRequest, RangeRequest, WatchCreateRequest};
use std::sync::atomic::Ordering::Relaxed;
use tokio_util::sync::CancellationToken;
use tonic::Code;

async fn leased(served: &Served, id: i64) {
    for key in ["b", "a"] {
        let request = PutRequest { key: key.into(), lease: id, ..Default::default() };
        served.client.put(request).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_tells_its_time_and_keys_and_takes_them_along() {
    let served = serve(Limits::default()).await;
    let client = &served.client;
    let granted = client.lease_grant(100, 0).await.unwrap();
    assert!(granted.id > 0);
    leased(&served, granted.id).await;
    served.clock.store(30_500, Relaxed);
    let time = client.lease_time_to_live(granted.id, true).await.unwrap();
    assert_eq!((time.ttl, time.granted_ttl, time.keys), (69, 100, vec!["a".into(), "b".into()]));
    assert_eq!(client.lease_keep_alive(granted.id).await.unwrap().ttl, 100);
    assert_eq!(client.lease_time_to_live(granted.id, false).await.unwrap().ttl, 100);
    assert_eq!(client.lease_leases().await.unwrap().leases.len(), 1);
    let revoked = client.lease_revoke(granted.id).await.unwrap();
    assert_eq!(revoked.header.unwrap().revision, 4);
    let all = RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    assert_eq!(client.range(all).await.unwrap().count, 0);
    assert_eq!(client.lease_time_to_live(granted.id, true).await.unwrap().ttl, -1);
    assert_eq!(client.lease_keep_alive(granted.id).await.unwrap().ttl, 0);
}

#[tokio::test]
async fn leases_are_refused_as_etcd_does() {
    let served = serve(Limits::default()).await;
    let client = &served.client;
    client.lease_grant(10, 5).await.unwrap();
    let exists = client.lease_grant(10, 5).await.unwrap_err();
    assert_eq!((exists.code(), exists.to_string()), (Code::FailedPrecondition, "etcdserver: lease already exists".into()));
    let large = client.lease_grant(i64::MAX, 6).await.unwrap_err();
    assert_eq!((large.code(), large.to_string()), (Code::OutOfRange, "etcdserver: too large lease TTL".into()));
    let unknown = client.lease_revoke(77).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.to_string()), (Code::NotFound, "etcdserver: requested lease not found".into()));
    assert_eq!(client.lease_grant(0, 7).await.unwrap().ttl, 2);
}

#[tokio::test]
async fn an_expired_lease_is_revoked_at_one_revision() {
    let served = serve(Limits::default()).await;
    served.client.lease_grant(10, 5).await.unwrap();
    leased(&served, 5).await;
    let request = WatchCreateRequest { key: "a".into(), range_end: "c".into(), start_revision: 4, ..Default::default() };
    let mut watcher = served.client.watch(request);
    let stop = CancellationToken::new();
    let expiry = tokio::spawn(expiry::run(served.node.clone(), false, Metrics::new(), stop.clone()));
    served.clock.store(10_001, Relaxed);
    let changes = watcher.next().await.unwrap();
    let deleted: Vec<_> = changes.events.iter().map(|event| event.kv.clone().unwrap()).collect();
    assert_eq!(deleted.iter().map(|kv| (&kv.key[..], kv.mod_revision)).collect::<Vec<_>>(), [(&b"a"[..], 4), (&b"b"[..], 4)]);
    stop.cancel();
    expiry.await.unwrap();
}
