//! What was lost, doubled or made different by a crash.

use std::time::Duration;

use etcd::etcdserverpb::{DefragmentRequest, HashKvRequest};
use nix::sys::signal::Signal;

use super::signal;
use crate::{
    support::{Cluster, eventually, get, put},
    writer::{Writer, holds_all, written},
};

/// A cluster of one member acknowledged writes that it had not yet made durable.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_14370_a_lone_member_loses_no_acknowledged_write() {
    let mut cluster = Cluster::start(1).await;
    for round in 0..5 {
        let prefix = format!("r{round}-");
        let writer = Writer::start_with(&cluster.members[0], &prefix);
        written(&cluster.members[0], &format!("{prefix}{}", 20 * (round + 1))).await;
        cluster.members[0].kill();
        cluster.members[0].start();
        cluster.members[0].wait_for_leader().await;
        let (acknowledged, _) = writer.stop().await;
        holds_all(&cluster.members[0], &acknowledged).await;
    }
}

/// The hashes of all members at one revision.
async fn hashes(cluster: &Cluster) -> Vec<(u32, i64)> {
    let mut newest = Vec::new();
    for member in &cluster.members {
        newest.push(member.wait_for_leader().await.header.unwrap().revision);
    }
    let revision = *newest.iter().min().unwrap();
    let mut hashes = Vec::new();
    for member in &cluster.members {
        let ask = async || member.maintenance().hash_kv(HashKvRequest { revision }).await.ok();
        let answer = eventually("a hash", ask).await.into_inner();
        hashes.push((answer.hash, answer.hash_revision));
    }
    hashes
}

/// Until all members hold the same.
pub(super) async fn all_agree(cluster: &Cluster) {
    eventually("all members have the same hash", async || {
        let hashes = hashes(cluster).await;
        hashes.iter().all(|hash| *hash == hashes[0]).then_some(())
    })
    .await;
}

/// After members had been killed under load, they held different data, with different revisions, and did not notice.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_13766_members_agree_after_every_crash() {
    let mut cluster = Cluster::start_with(3, &["--snapshot-count", "100"]).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    for victims in [&[0, 1, 2][..], &[1], &[0, 2], &[0, 1, 2]] {
        let prefix = format!("v{}{}-", victims.len(), victims[0]);
        let writer = Writer::start_with(&cluster.members[0], &prefix);
        written(&cluster.members[0], &format!("{prefix}50")).await;
        victims.iter().for_each(|victim| cluster.members[*victim].kill());
        victims.iter().for_each(|victim| cluster.members[*victim].start());
        for member in &cluster.members {
            member.wait_for_leader().await;
        }
        let (acknowledged, _) = writer.stop().await;
        all_agree(&cluster).await;
        for member in &cluster.members {
            holds_all(member, &acknowledged).await;
        }
    }
}

/// A member that was killed while it defragmented its database came back with another revision than the others.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_14685_a_crash_while_defragmenting_makes_no_member_differ() {
    let mut cluster = Cluster::start(3).await;
    let writer = Writer::start_with(&cluster.members[0], "d");
    for (round, pause) in [0, 2, 5, 10, 20, 40].into_iter().enumerate() {
        written(&cluster.members[0], &format!("d{}", 30 * (round + 1))).await;
        // Not the one the writer uses.
        let victim = 1 + round % 2;
        let mut maintenance = cluster.members[victim].maintenance();
        let rewriting = tokio::spawn(async move { maintenance.defragment(DefragmentRequest {}).await });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        cluster.members[victim].kill();
        // Whether it was done or cut off makes no difference.
        let _ = rewriting.await.unwrap();
        cluster.members[victim].start();
        cluster.members[victim].wait_for_leader().await;
    }
    let (acknowledged, _) = writer.stop().await;
    all_agree(&cluster).await;
    for member in &cluster.members {
        holds_all(member, &acknowledged).await;
    }
}

/// A follower that got a second snapshot while it worked on the first one panicked.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_18055_snapshots_in_a_row_harm_nobody() {
    let cluster = Cluster::start_with(3, &["--snapshot-count", "50"]).await;
    let leader = cluster.leader().await;
    let late = &cluster.members[(leader + 1) % 3];
    let mut kv = cluster.members[leader].kv();
    let mut number = 0;
    for _ in 0..8 {
        signal(late, Signal::SIGSTOP);
        for _ in 0..150 {
            eventually("it writes", async || put(&mut kv.clone(), &format!("k{}", number % 50), &number.to_string()).await.ok()).await;
            number += 1;
        }
        // Just long enough to be offered a snapshot, too short to finish with it.
        signal(late, Signal::SIGCONT);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let last = eventually("it has caught up", async || get(&mut late.kv(), &format!("k{}", (number - 1) % 50)).await.ok()).await;
    assert_eq!(last, Some((number - 1).to_string()));
    all_agree(&cluster).await;
    put(&mut kv, "on", "1").await.unwrap();
}
