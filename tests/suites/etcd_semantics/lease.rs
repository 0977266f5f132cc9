//! The Lease service.

use etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest,
    lease_client::LeaseClient,
};

use crate::talk::{Talk, get, put, range};
use crate::text::Text;

crate::cases![
    a_lease_is_granted_under_the_number_asked_for,
    a_lease_without_a_number_gets_one,
    a_time_is_not_too_short_and_not_too_long,
    a_lease_tells_its_time_and_its_keys,
    a_lease_that_is_not_has_no_time,
    a_lease_is_kept_alive,
    a_stream_keeps_many_alive,
    a_revoked_lease_takes_its_keys_along_at_once,
    a_lease_that_holds_nothing_goes_without_a_revision,
    leases_are_listed_by_their_end,
    a_lease_ends_with_its_time,
];

fn grant(id: i64, ttl: i64) -> LeaseGrantRequest {
    LeaseGrantRequest { id, ttl }
}

fn time(id: i64) -> LeaseTimeToLiveRequest {
    LeaseTimeToLiveRequest { id, keys: true }
}

const UNKNOWN: &str = "NotFound: etcdserver: requested lease not found";

async fn a_lease_is_granted_under_the_number_asked_for(talk: &mut Talk) {
    talk.ask(grant(7, 600), "@0 lease 7 for 600 s").await;
    talk.ask(grant(7, 600), "FailedPrecondition: etcdserver: lease already exists").await;
    talk.ask(time(7), "@0 lease 7 for 600 s, fresh []").await;
    talk.ask(grant(i64::MAX, 600), format!("@0 lease {} for 600 s", i64::MAX)).await;
    talk.ask(LeaseRevokeRequest { id: 7 }, "@0").await;
    talk.ask(grant(7, 500), "@0 lease 7 for 500 s").await;
}

async fn a_lease_without_a_number_gets_one(talk: &mut Talk) {
    let (first, second) = (talk.get(grant(0, 600)).await, talk.get(grant(0, 600)).await);
    assert!(first.id > 0 && second.id > 0 && first.id != second.id, "{first:?} {second:?}");
    talk.ask(time(first.id), format!("@0 lease {} for 600 s, fresh []", first.id)).await;
}

async fn a_time_is_not_too_short_and_not_too_long(talk: &mut Talk) {
    for (id, ttl) in [(1, 1), (2, 0), (3, -5)] {
        talk.ask(grant(id, ttl), format!("@0 lease {id} for 2 s")).await;
    }
    talk.ask(grant(4, 9_000_000_000), "@0 lease 4 for 9000000000 s").await;
    talk.ask(grant(5, 9_000_000_001), "OutOfRange: etcdserver: too large lease TTL").await;
    talk.ask(time(5), "@0 lease 5 for 0 s, -1 s left []").await;
}

async fn a_lease_tells_its_time_and_its_keys(talk: &mut Talk) {
    talk.grant(7, 600).await;
    for key in ["b", "a", "c"] {
        talk.get(PutRequest { lease: 7, ..put(key, "1") }).await;
    }
    talk.delete("c").await;
    talk.ask(time(7), "@4 lease 7 for 600 s, fresh [a, b]").await;
    talk.ask(LeaseTimeToLiveRequest { id: 7, keys: false }, "@4 lease 7 for 600 s, fresh []").await;
}

async fn a_lease_that_is_not_has_no_time(talk: &mut Talk) {
    talk.ask(time(99), "@0 lease 99 for 0 s, -1 s left []").await;
    talk.ask(time(0), "@0 lease 0 for 0 s, -1 s left []").await;
    talk.ask(LeaseKeepAliveRequest { id: 99 }, "@0 lease 99 for 0 s").await;
    talk.ask(LeaseRevokeRequest { id: 99 }, UNKNOWN).await;
    talk.ask(LeaseRevokeRequest { id: 0 }, UNKNOWN).await;
}

async fn a_lease_is_kept_alive(talk: &mut Talk) {
    talk.grant(7, 600).await;
    talk.put("a", "1").await;
    talk.ask(LeaseKeepAliveRequest { id: 7 }, "@1 lease 7 for 600 s").await;
    talk.ask(time(7), "@1 lease 7 for 600 s, fresh []").await;
}

async fn a_stream_keeps_many_alive(talk: &mut Talk) {
    for id in 1..=3 {
        talk.grant(id, 100 * id).await;
    }
    let requests: Vec<_> = [3, 1, 99, 2, 3].map(|id| LeaseKeepAliveRequest { id }).into();
    let mut client = LeaseClient::new(talk.channel.clone());
    let mut answers = client.lease_keep_alive(tokio_stream::iter(requests)).await.unwrap().into_inner();
    for expected in ["3 for 300", "1 for 100", "99 for 0", "2 for 200", "3 for 300"] {
        let answer = answers.message().await.unwrap().expect("an answer to each");
        assert_eq!(answer.text(&talk.frame), format!("@0 lease {expected} s"));
    }
    assert!(answers.message().await.unwrap().is_none(), "the stream ends with its requests");
}

async fn a_revoked_lease_takes_its_keys_along_at_once(talk: &mut Talk) {
    talk.grant(7, 600).await;
    for key in ["a", "b", "c"] {
        talk.get(PutRequest { lease: 7, ..put(key, "1") }).await;
    }
    talk.put("d", "1").await;
    talk.ask(LeaseRevokeRequest { id: 7 }, "@5").await;
    talk.ask(range("a", "z"), "@5 [d=1 c4 m4 v1] of 1").await;
    talk.ask(time(7), "@5 lease 7 for 0 s, -1 s left []").await;
    talk.ask(LeaseRevokeRequest { id: 7 }, UNKNOWN).await;
    talk.ask(PutRequest { lease: 7, ..put("a", "1") }, UNKNOWN).await;
}

async fn a_lease_that_holds_nothing_goes_without_a_revision(talk: &mut Talk) {
    talk.put("a", "1").await;
    talk.grant(7, 600).await;
    talk.ask(LeaseRevokeRequest { id: 7 }, "@1").await;
    talk.ask(get("a"), "@1 [a=1 c1 m1 v1] of 1").await;
}

async fn leases_are_listed_by_their_end(talk: &mut Talk) {
    talk.ask(LeaseLeasesRequest {}, "@0 []").await;
    for (id, ttl) in [(1, 300), (2, 100), (3, 200)] {
        talk.grant(id, ttl).await;
    }
    talk.ask(LeaseLeasesRequest {}, "@0 [2, 3, 1]").await;
    talk.get(LeaseRevokeRequest { id: 3 }).await;
    talk.ask(LeaseLeasesRequest {}, "@0 [2, 1]").await;
}

async fn a_lease_ends_with_its_time(talk: &mut Talk) {
    talk.grant(7, 2).await;
    talk.get(PutRequest { lease: 7, ..put("a", "1") }).await;
    talk.ask(get("a"), "@1 [a=1 c1 m1 v1 l7] of 1").await;
    while talk.told(get("a")).await != "@2 [] of 0" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    talk.ask(LeaseKeepAliveRequest { id: 7 }, "@2 lease 7 for 0 s").await;
    talk.ask(LeaseRevokeRequest { id: 7 }, UNKNOWN).await;
}
