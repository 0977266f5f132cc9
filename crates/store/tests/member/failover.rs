//! Three members, of which some are killed while a client writes.

use std::time::{Duration, Instant};

use etcd::etcdserverpb::{
    MoveLeaderRequest, WatchCreateRequest, WatchRequest, maintenance_client::MaintenanceClient, watch_client::WatchClient,
    watch_request::RequestUnion,
};
use tests::traffic::{Door, Shape, Traffic};
use tonic::Code;

use crate::{
    support::{Cluster, Member, eventually, get, put, within},
    writer::{Writer, holds_all, written},
};

/// Kills a member while a client writes through another, and starts it again.
async fn writes_go_on_without(victim_leads: bool) {
    let mut cluster = Cluster::start_alone(3).await;
    let leader = cluster.leader().await;
    let victim = if victim_leads { leader } else { (leader + 1) % 3 };
    let witness = (leader + 2) % 3;
    let writer = Writer::start(&cluster.members[witness]);
    written(&cluster.members[witness], "w20").await;
    cluster.members[victim].kill();
    let seen = cluster.members[witness].wait_for_leader().await;
    assert_ne!(seen.leader, 0);
    // Several election timeouts of writing without it.
    tokio::time::sleep(Duration::from_secs(4)).await;
    cluster.members[victim].start();
    cluster.members[victim].wait_for_leader().await;
    let (acknowledged, longest) = writer.stop().await;
    assert!(longest <= Duration::from_secs(3), "writes paused for {longest:?}");
    for member in &cluster.members {
        holds_all(member, &acknowledged).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_the_leader_is_killed() {
    writes_go_on_without(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_a_follower_is_killed() {
    writes_go_on_without(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_process_is_gone_is_replaced_before_an_election_timeout_has_passed() {
    let timeout = Duration::from_secs(10);
    let mut cluster = Cluster::start_with(3, &["--election-timeout", "10000"]).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    let leader = cluster.leader().await;
    let mut kv = cluster.members[(leader + 1) % 3].kv();
    put(&mut kv, "before", "1").await.unwrap();
    cluster.members[leader].kill();
    let killed = Instant::now();
    eventually("a write is acknowledged", async || within(timeout, put(&mut kv.clone(), "after", "1")).await.ok()).await;
    assert!(killed.elapsed() < timeout / 2, "the next write took {:?}", killed.elapsed());
    // The one that comes back disturbs nobody.
    let successor = cluster.leader().await;
    cluster.members[leader].start();
    cluster.members[leader].wait_for_leader().await;
    assert_eq!(cluster.leader().await, successor);
    assert_eq!(get(&mut cluster.members[leader].kv(), "after").await.unwrap().unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_members_survive_the_loss_of_two_and_nobody_sees_a_change_twice_or_not_at_all() {
    let mut cluster = Cluster::start(5).await;
    let doors = cluster.members.iter().map(|member| Door::new(&member.name, &member.url(), None)).collect();
    let traffic = Traffic::start(4711, Shape { writers: 1, watchers: 1, ..Shape::default() }, doors).await;
    traffic.writes_through(&[0, 1, 2, 3, 4]).await;
    let leader = cluster.leader().await;
    let lost = [leader, (leader + 1) % 5];
    let left = [(leader + 2) % 5, (leader + 3) % 5, (leader + 4) % 5];
    for member in lost {
        cluster.members[member].kill();
    }
    let took = traffic.writes_through(&left).await;
    assert!(took < Duration::from_secs(10), "writing through {left:?} after {took:?}");
    for member in lost {
        cluster.members[member].start();
    }
    traffic.writes_through(&[0, 1, 2, 3, 4]).await;
    let summary = traffic.end().await.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(summary.acknowledged > 20, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_writes_fail_within_the_deadline_and_resume_with_it() {
    let mut cluster = Cluster::start(3).await;
    let survivor = cluster.leader().await;
    let others = [(survivor + 1) % 3, (survivor + 2) % 3];
    let mut kv = cluster.members[survivor].kv();
    put(&mut kv, "before", "1").await.unwrap();
    for other in others {
        cluster.members[other].kill();
    }
    let error = within(Duration::from_secs(12), put(&mut kv, "during", "1")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().starts_with("etcdserver: request timed out"), "{error}");
    let serializable = etcd::etcdserverpb::RangeRequest { key: "before".into(), serializable: true, ..Default::default() };
    assert_eq!(kv.range(serializable).await.unwrap().into_inner().kvs.len(), 1);
    assert_eq!(cluster.members[survivor].status().await.unwrap().leader, 0);
    cluster.members[others[0]].start();
    eventually("writing resumes", async || within(Duration::from_secs(8), put(&mut kv.clone(), "after", "1")).await.ok()).await;
    assert_eq!(get(&mut cluster.members[others[0]].kv(), "before").await.unwrap().unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_members_killed_at_once_come_back_with_every_acknowledged_write() {
    let mut cluster = Cluster::start(3).await;
    let writer = Writer::start(&cluster.members[0]);
    written(&cluster.members[0], "w50").await;
    cluster.members.iter_mut().for_each(Member::kill);
    cluster.members.iter_mut().for_each(Member::start);
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    let (acknowledged, _) = writer.stop().await;
    for member in &cluster.members {
        holds_all(member, &acknowledged).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_too_far_behind_gets_a_snapshot() {
    let mut cluster = Cluster::start_with(3, &["--snapshot-count", "50"]).await;
    let leader = cluster.leader().await;
    let late = (leader + 1) % 3;
    let mut kv = cluster.members[leader].kv();
    let mut number = 0;
    // A log that is just being sent to the late one is purged later: then it was not too far behind, and falls behind again.
    for _ in 0..10 {
        cluster.members[late].kill();
        let taken = |cluster: &Cluster| cluster.members[leader].logged().matches("took a snapshot").count();
        let before = taken(&cluster);
        while taken(&cluster) < before + 4 {
            put(&mut kv, &format!("k{}", number % 100), &number.to_string()).await.unwrap();
            number += 1;
        }
        cluster.members[late].start();
        cluster.members[late].wait_for_leader().await;
        let last = format!("k{}", (number - 1) % 100);
        assert_eq!(get(&mut cluster.members[late].kv(), &last).await.unwrap(), Some((number - 1).to_string()));
        if cluster.members[late].logged().contains("installed a snapshot") {
            break;
        }
    }
    assert!(cluster.members[late].logged().contains("installed a snapshot"));
    put(&mut cluster.members[late].kv(), "through the late one", "1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leadership_moves_on_request_and_at_a_clean_stop() {
    let mut cluster = Cluster::start_alone(3).await;
    let leader = cluster.leader().await;
    let heir = (leader + 1) % 3;
    let target_id = cluster.members[heir].status().await.unwrap().header.unwrap().member_id;
    // On a slow disk the election may fail, and someone else lead then.
    let move_it = async || {
        let leader = cluster.leader().await;
        let mut maintenance = MaintenanceClient::new(cluster.members[leader].channel());
        maintenance.move_leader(MoveLeaderRequest { target_id }).await.ok().filter(|_| leader != heir)
    };
    eventually("the leadership is moved", move_it).await;
    assert_eq!(cluster.leader().await, heir);
    let mut maintenance = MaintenanceClient::new(cluster.members[leader].channel());
    let refused = maintenance.move_leader(MoveLeaderRequest { target_id }).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: not leader");
    let writer = Writer::start(&cluster.members[leader]);
    written(&cluster.members[leader], "w20").await;
    assert!(cluster.members[heir].terminate().success());
    written(&cluster.members[leader], "w100").await;
    let (_, longest) = writer.stop().await;
    assert!(longest <= Duration::from_secs(3), "a planned stop paused writes for {longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_stop_hands_on_before_it_takes_leave_of_its_clients() {
    let timeout = Duration::from_secs(10);
    let mut cluster = Cluster::start_with(3, &["--election-timeout", "10000"]).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    let leader = cluster.leader().await;
    let witness = (leader + 1) % 3;
    // A stream that its client leaves open is waited for.
    let create = WatchCreateRequest { key: "any".into(), ..Default::default() };
    let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::StreamExt::chain(tokio_stream::iter([create]), tokio_stream::pending());
    let _open = WatchClient::new(cluster.members[leader].channel()).watch(requests).await.unwrap();
    let writer = Writer::start(&cluster.members[witness]);
    written(&cluster.members[witness], "w20").await;
    assert!(cluster.members[leader].terminate().success());
    assert!(cluster.members[leader].logged().contains("handed the leadership on"), "{}", cluster.members[leader].logged());
    eventually("writing goes on", async || put(&mut cluster.members[witness].kv(), "after", "1").await.ok()).await;
    let (acknowledged, longest) = writer.stop().await;
    assert!(longest < timeout / 5, "a planned stop paused writes for {longest:?}");
    holds_all(&cluster.members[witness], &acknowledged).await;
}
