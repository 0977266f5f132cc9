//! Members that stood still for a while and did not know.

use std::time::{Duration, Instant};

use etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest, lease_client::LeaseClient};
use nix::sys::signal::Signal;

use super::signal;
use crate::support::{Cluster, Member, eventually, get, put, within};

/// Longer than an election takes.
const PAUSE: Duration = Duration::from_secs(6);

/// The others have another leader than this one.
async fn replaced(cluster: &Cluster, leader: usize) -> usize {
    let old = eventually("its number", async || cluster.members[(leader + 1) % 3].status().await.ok()).await.leader;
    let other = async || {
        for heir in [(leader + 1) % 3, (leader + 2) % 3] {
            let status = cluster.members[heir].status().await.ok()?;
            if status.leader != 0 && status.leader != old && status.header?.member_id == status.leader {
                return Some(heir);
            }
        }
        None
    };
    eventually("another leader", other).await
}

/// A leader that had been paused while another was elected answered linearizable reads from what it knew.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_20418_a_leader_that_was_paused_reads_nothing_stale() {
    let cluster = Cluster::start_alone(3).await;
    for round in 0..3 {
        let leader = cluster.leader().await;
        put(&mut cluster.members[leader].kv(), "k", &format!("old {round}")).await.unwrap();
        let new = format!("new {round}");
        signal(&cluster.members[leader], Signal::SIGSTOP);
        let heir = replaced(&cluster, leader).await;
        eventually("the new value is written", async || put(&mut cluster.members[heir].kv(), "k", &new).await.ok()).await;
        // The request waits for the process, so that it is among the first things it does.
        let mut kv = cluster.members[leader].kv();
        let reading = tokio::spawn(async move { within(Duration::from_secs(10), get(&mut kv, "k")).await });
        signal(&cluster.members[leader], Signal::SIGCONT);
        if let Ok(found) = reading.await.unwrap() {
            assert_eq!(found.as_ref(), Some(&new), "round {round}");
        }
        let found = eventually("it reads again", async || get(&mut cluster.members[leader].kv(), "k").await.ok()).await;
        assert_eq!(found, Some(new), "round {round}");
    }
}

async fn keep_alive(member: &Member, id: i64) -> Option<i64> {
    let mut client = LeaseClient::new(member.channel());
    let kept = async {
        let mut answers = client.lease_keep_alive(tokio_stream::once(LeaseKeepAliveRequest { id })).await?.into_inner();
        answers.message().await
    };
    within(Duration::from_secs(2), kept).await.ok().flatten().map(|answer| answer.ttl)
}

/// A leader that had been stuck, by its disk or its scheduler, revoked every lease whose keep-alives it had not heard.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_15247_a_leader_that_was_paused_revokes_no_lease() {
    let cluster = Cluster::start_alone(3).await;
    let leader = cluster.leader().await;
    let heir = &cluster.members[(leader + 1) % 3];
    let (id, ttl) = (7, 5);
    LeaseClient::new(heir.channel()).lease_grant(LeaseGrantRequest { id, ttl }).await.unwrap();
    let put = PutRequest { key: "k".into(), value: "1".into(), lease: id, ..Default::default() };
    heir.kv().put(put).await.unwrap();
    signal(&cluster.members[leader], Signal::SIGSTOP);
    replaced(&cluster, leader).await;
    let began = Instant::now();
    let mut often = tokio::time::interval(Duration::from_millis(300));
    let mut resumed = false;
    while began.elapsed() < 2 * PAUSE {
        often.tick().await;
        if !resumed && began.elapsed() > PAUSE {
            signal(&cluster.members[leader], Signal::SIGCONT);
            resumed = true;
        }
        // While there is no leader nobody answers; whoever does must know the lease.
        assert_ne!(keep_alive(heir, id).await, Some(0), "after {:?}", began.elapsed());
    }
    for member in &cluster.members {
        let found = eventually("it reads", async || get(&mut member.kv(), "k").await.ok()).await;
        assert_eq!(found.as_deref(), Some("1"), "on {}", member.name);
    }
}
