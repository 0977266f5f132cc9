//! Leases while leaders change.

use std::time::{Duration, Instant};

use etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest};
use nix::sys::signal::Signal;

use crate::support::{Cluster, Member, eventually, get, within};

/// Keeps a lease alive through a member; the seconds it has then.
async fn keep_alive(member: &Member, id: i64) -> Option<i64> {
    let requests = tokio_stream::iter([LeaseKeepAliveRequest { id }]);
    let mut lease = member.lease();
    let ask = async { lease.lease_keep_alive(requests).await?.into_inner().message().await };
    Some(within(Duration::from_secs(2), ask).await.ok()??.ttl)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_revokes_no_lease_that_was_kept_alive_without_it() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let witness = &cluster.members[(leader + 1) % 3];
    let ttl = 5;
    witness.lease().lease_grant(LeaseGrantRequest { ttl, id: 7 }).await.unwrap();
    witness.kv().put(PutRequest { key: "leased".into(), lease: 7, ..Default::default() }).await.unwrap();
    cluster.members[leader].signal(Signal::SIGSTOP);
    let (start, stopped) = (Instant::now(), Duration::from_secs(8));
    while start.elapsed() < stopped {
        eventually("the lease is kept alive", async || keep_alive(witness, 7).await.filter(|left| *left == ttl)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    cluster.members[leader].signal(Signal::SIGCONT);
    // Longer than the old leader needs to look at its leases, and to try again.
    while start.elapsed() < stopped + Duration::from_secs(5) {
        assert_ne!(keep_alive(witness, 7).await, Some(0), "the lease is gone");
        let read = async || within(Duration::from_secs(2), get(&mut witness.kv(), "leased")).await.ok();
        assert!(eventually("it reads", read).await.is_some(), "its key is gone");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // Left alone it ends, and its key with it.
    eventually("the key goes with its lease", async || get(&mut witness.kv(), "leased").await.unwrap().is_none().then_some(())).await;
}
