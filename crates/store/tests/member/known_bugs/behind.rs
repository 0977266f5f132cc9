//! Members that were away for so long that they were sent the state instead of the log.

use std::sync::Arc;

use etcd::etcdserverpb::{
    MemberAddRequest, WatchProgressRequest, WatchRequest, cluster_client::ClusterClient, watch_request::RequestUnion,
};
use tests::wires::{Wire, Wires};

use super::{Watching, all, revisions};
use crate::{
    auth,
    support::{Cluster, eventually, get, put},
};

/// Snapshots often, so that little has to be written to fall behind.
const FLAGS: [&str; 2] = ["--snapshot-count", "20"];

/// Three members, of which one follower can be left behind.
struct Scene {
    cluster: Cluster,
    wires: Arc<Wires>,
    leader: usize,
    late: usize,
    /// The newest revision.
    newest: i64,
}

impl Scene {
    async fn start() -> Self {
        let wires = Wires::new(3);
        let cluster = Cluster::start_wired_with(3, None, &wires, &FLAGS).await;
        for member in &cluster.members {
            member.wait_for_leader().await;
        }
        let leader = cluster.leader().await;
        Self { cluster, wires, leader, late: (leader + 1) % 3, newest: 1 }
    }

    async fn put(&mut self, key: &str) {
        let mut kv = self.cluster.members[self.leader].kv();
        self.newest = put(&mut kv, key, "").await.unwrap();
    }

    /// The late one is cut off, while the others write, until the leader sends it a snapshot.
    async fn fall_behind(&mut self) {
        // A log that is just being sent to it is purged later: then it was not too far behind, and falls behind again.
        for round in 0..10 {
            self.wires.isolate(self.late, Wire::Cut);
            let taken = |scene: &Self| scene.cluster.members[scene.leader].logged().matches("took a snapshot").count();
            let before = taken(self);
            while taken(self) < before + 4 {
                for number in 0..20 {
                    self.put(&format!("k{number}")).await;
                }
                // Snapshots are looked for every 250 ms; a fast machine would write thousands of revisions between two.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            let last = format!("k-last-{round}");
            self.put(&last).await;
            self.wires.heal();
            let late = &self.cluster.members[self.late];
            eventually("it has caught up", async || get(&mut late.kv(), &last).await.ok().flatten()).await;
            if late.logged().contains("installed a snapshot") {
                return;
            }
        }
        panic!("the late one got no snapshot");
    }
}

/// After a partition a member was sent a snapshot, and told its watchers again what they had heard before.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_15271_a_watch_does_not_go_back_in_time_after_a_partition() {
    let mut scene = Scene::start().await;
    let mut stream = Watching::open(&scene.cluster.members[scene.late], [all(2)]).await;
    assert!(stream.next().await.created);
    let mut seen = Vec::new();
    for _ in 0..30 {
        scene.put("k").await;
    }
    while seen.len() < 30 {
        seen.extend(revisions(&stream.next().await));
    }
    scene.fall_behind().await;
    scene.put("k").await;
    while seen.last() < Some(&scene.newest) {
        seen.extend(revisions(&stream.next().await));
    }
    assert_eq!(seen, (2..=scene.newest).collect::<Vec<_>>());
}

/// A watch of the future became one of the present when its member was sent a snapshot: clients of several members were told
/// what they had seen before, and reports of progress took them back.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_20221_a_watch_of_the_future_hears_nothing_older_after_a_snapshot() {
    let mut scene = Scene::start().await;
    scene.put("k").await;
    let start = scene.newest + 2500;
    let mut stream = Watching::open(&scene.cluster.members[scene.late], [all(start)]).await;
    assert!(stream.next().await.created);
    let progress = || WatchRequest { request_union: Some(RequestUnion::ProgressRequest(WatchProgressRequest {})) };
    stream.requests.send(progress()).await.unwrap();
    scene.fall_behind().await;
    stream.requests.send(progress()).await.unwrap();
    assert!(scene.newest < start - 10, "its start is still to come");
    while scene.newest < start + 3 {
        scene.put("k").await;
    }
    let mut seen = Vec::new();
    while seen.last() < Some(&scene.newest) {
        let response = stream.next().await;
        let told = response.header.as_ref().unwrap().revision;
        assert!(told >= start - 1, "told of {told}, it begins at {start}");
        seen.extend(revisions(&response));
    }
    assert_eq!(seen, (start..=scene.newest).collect::<Vec<_>>());
}

/// A new member that got users and roles by a snapshot did not take them up, and refused what the others applied.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_14571_a_new_member_checks_by_the_rights_that_came_with_its_snapshot() {
    let mut cluster = Cluster::start_with(1, &[&FLAGS[..], &auth::CHEAP].concat()).await;
    cluster.members[0].wait_for_leader().await;
    auth::guard(cluster.members[0].channel()).await;
    let token = async |name: &str| Some(auth::login(&cluster.members[0], name).await.unwrap());
    let (root, alice) = (token("root").await, token("alice").await);
    let old = auth::with(&cluster.members[0], alice);
    for _ in 0..200 {
        auth::put(&old, "a/1").await.unwrap();
    }
    // Each snapshot sees to it that the log before the last one is given up.
    let taken = || cluster.members[0].logged().matches("took a snapshot").count();
    let before = taken();
    while taken() < before + 4 {
        auth::put(&old, "a/1").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let mut new = cluster.newcomer("m2");
    let mut asked = ClusterClient::new(auth::with(&cluster.members[0], root));
    asked.member_add(MemberAddRequest { peer_ur_ls: vec![new.peer_url()], is_learner: false }).await.unwrap();
    new.start();
    eventually("it got a snapshot", async || new.logged().contains("installed a snapshot").then_some(())).await;
    // Tokens given out before are no part of a snapshot, as in etcd.
    let alice = eventually("it lets alice in", async || auth::login(&new, "alice").await.ok()).await;
    let session = auth::with(&new, Some(alice));
    auth::put(&session, "a/2").await.unwrap();
    auth::put(&old, "a/3").await.unwrap();
    // What the new one itself has: a linearizable read first, so that it is up to date.
    for key in ["a/1", "a/2", "a/3"] {
        assert_eq!(auth::get(&session, key, false).await.unwrap(), 1, "{key}");
        assert_eq!(auth::get(&session, key, true).await.unwrap(), 1, "{key}");
    }
    assert!(auth::put(&session, "b").await.unwrap_err().message().contains("permission denied"));
    cluster.members.push(new);
}
