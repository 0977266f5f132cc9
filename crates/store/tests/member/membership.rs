//! Clusters that grow, shrink and move while they run.

use std::{fs, time::Duration};

use etcd::etcdserverpb::{
    CompactionRequest, Member as Listed, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest,
    MemberUpdateRequest, RangeRequest,
};
use tonic::Status;

use crate::support::{Cluster, Member, eventually, get, put, within};

const LIMIT: Duration = Duration::from_secs(10);

async fn add(through: &Member, new: &Member, is_learner: bool) -> Result<u64, Status> {
    let request = MemberAddRequest { peer_ur_ls: vec![new.peer_url()], is_learner };
    let response = within(LIMIT, through.cluster().member_add(request)).await?.into_inner();
    let member = response.member.unwrap();
    assert!(response.members.contains(&member));
    assert_eq!((member.is_learner, member.name.as_str()), (is_learner, ""));
    Ok(member.id)
}

async fn remove(through: &Member, id: u64) -> Result<Vec<Listed>, Status> {
    let request = MemberRemoveRequest { id };
    Ok(within(LIMIT, through.cluster().member_remove(request)).await?.into_inner().members)
}

async fn promote(through: &Member, id: u64) -> Result<Vec<Listed>, Status> {
    let request = MemberPromoteRequest { id };
    Ok(within(LIMIT, through.cluster().member_promote(request)).await?.into_inner().members)
}

async fn list(member: &Member) -> Vec<Listed> {
    let request = MemberListRequest { linearizable: true };
    within(LIMIT, member.cluster().member_list(request)).await.unwrap().into_inner().members
}

async fn id(member: &Member) -> u64 {
    member.status().await.unwrap().header.unwrap().member_id
}

async fn writes(member: &Member, key: &str) {
    let write = async || within(LIMIT, put(&mut member.kv(), key, "1")).await.ok();
    eventually(&format!("{key} is written through {}", member.name), write).await;
}

/// Adds a member, starts it and waits until it counts in the quorum: it is up to date and has a vote.
async fn grow(cluster: &mut Cluster, name: &str) {
    let mut new = cluster.newcomer(name);
    let add = async || add(cluster.running(), &new, false).await.ok();
    eventually("it is added", add).await;
    new.start();
    new.wait_for_leader().await;
    eventually("it is up to date", async || get(&mut new.kv(), "first").await.ok().flatten()).await;
    // A member with a name counts.
    eventually("it has a vote", async || list(&new).await.iter().all(|member| !member.name.is_empty()).then_some(())).await;
    cluster.members.push(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_from_one_to_three_and_then_loses_its_first_member() {
    let mut cluster = Cluster::start(1).await;
    writes(&cluster.members[0], "first").await;
    grow(&mut cluster, "m2").await;
    grow(&mut cluster, "m3").await;
    for member in &cluster.members {
        let listed = list(member).await;
        assert_eq!(listed.iter().filter(|member| !member.name.is_empty() && !member.is_learner).count(), 3, "{listed:?}");
    }
    let first = id(&cluster.members[0]).await;
    eventually("all three vote, so that two can go on", async || remove(&cluster.members[1], first).await.ok()).await;
    let removed = cluster.members[0].wait_for_end();
    assert!(removed.success(), "{removed}");
    assert!(cluster.members[0].logged().contains("the member has been permanently removed from the cluster"));
    writes(&cluster.members[1], "after").await;
    assert_eq!(get(&mut cluster.members[2].kv(), "first").await.unwrap().unwrap(), "1");
    assert_eq!(list(&cluster.members[2]).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_new_member_to_start_stops_nobodys_writes() {
    let cluster = Cluster::start(1).await;
    let new = cluster.newcomer("m2");
    eventually("the first has said its name, and the second is added", async || add(&cluster.members[0], &new, false).await.ok()).await;
    within(LIMIT, put(&mut cluster.members[0].kv(), "meanwhile", "1")).await.unwrap();
    let second = add(&cluster.members[0], &cluster.newcomer("m3"), false).await.unwrap_err();
    assert_eq!(second.message(), "etcdserver: re-configuration failed due to not enough started members");
    let listed = list(&cluster.members[0]).await;
    assert_eq!(listed.iter().filter(|member| member.name.is_empty() && !member.is_learner).count(), 1, "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_serves_little_until_it_is_promoted() {
    let mut cluster = Cluster::start(1).await;
    writes(&cluster.members[0], "first").await;
    let mut learner = cluster.newcomer("m2");
    let learner_id = eventually("it is added", async || add(&cluster.members[0], &learner, true).await.ok()).await;
    let unready = promote(&cluster.members[0], learner_id).await.unwrap_err();
    assert_eq!(unready.message(), "etcdserver: can only promote a learner member which is in sync with leader");
    let another = add(&cluster.members[0], &cluster.newcomer("m3"), true).await.unwrap_err();
    assert_eq!(another.message(), "etcdserver: too many learner members in cluster");
    learner.start();
    let status = learner.wait_for_leader().await;
    assert!(status.is_learner);
    let local = RangeRequest { key: "first".into(), serializable: true, ..Default::default() };
    eventually("it has the data", async || learner.kv().range(local.clone()).await.ok()?.into_inner().kvs.pop()).await;
    for refused in [get(&mut learner.kv(), "first").await.unwrap_err(), put(&mut learner.kv(), "a", "1").await.unwrap_err()] {
        assert_eq!(refused.message(), "etcdserver: rpc not supported for learner");
    }
    let promoted = eventually("it is promoted", async || promote(&cluster.members[0], learner_id).await.ok()).await;
    assert!(promoted.iter().all(|member| !member.is_learner));
    assert_eq!(get(&mut learner.kv(), "first").await.unwrap().unwrap(), "1");
    let twice = promote(&learner, learner_id).await.unwrap_err();
    assert_eq!(twice.message(), "etcdserver: can only promote a learner member");
    cluster.members.push(learner);
    assert!(!cluster.members[1].status().await.unwrap().is_learner);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_is_replaced_by_one_that_catches_up_from_a_snapshot() {
    let mut cluster = Cluster::start_with(3, &["--snapshot-count", "20"]).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    writes(&cluster.members[0], "first").await;
    let dead = (cluster.leader().await + 1) % 3;
    let dead_id = id(&cluster.members[dead]).await;
    cluster.members[dead].kill();
    for i in 0..200 {
        writes(cluster.running(), &format!("key-{}", i % 10)).await;
    }
    let revision = put(&mut cluster.running().kv(), "last", "1").await.unwrap();
    cluster.running().kv().compact(CompactionRequest { revision, physical: false }).await.unwrap();
    let left = eventually("the dead one is put out", async || remove(cluster.running(), dead_id).await.ok()).await;
    assert_eq!(left.len(), 2);
    cluster.members.remove(dead);
    grow(&mut cluster, "m4").await;
    let new = &cluster.members[2];
    assert_eq!(get(&mut new.kv(), "last").await.unwrap().unwrap(), "1");
    let lost = cluster.leader().await;
    cluster.members[lost].kill();
    writes(&cluster.members[(lost + 1) % 3], "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_removed_while_it_was_down_finds_out_and_stops() {
    let mut cluster = Cluster::start(3).await;
    writes(&cluster.members[0], "first").await;
    let down = (cluster.leader().await + 1) % 3;
    let down_id = id(&cluster.members[down]).await;
    cluster.members[down].kill();
    eventually("it is removed", async || remove(cluster.running(), down_id).await.ok()).await;
    for _ in 0..2 {
        cluster.members[down].start();
        let ended = cluster.members[down].wait_for_end();
        assert!(ended.success(), "{ended}");
        let logged = cluster.members[down].logged();
        assert!(logged.contains("the member has been permanently removed from the cluster"), "{logged}");
    }
    writes(cluster.running(), "after").await;
    let refused = remove(cluster.running(), down_id).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: member not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_given_up_by_a_forced_new_cluster_are_refused_and_end() {
    let mut cluster = Cluster::start(3).await;
    writes(&cluster.members[0], "first").await;
    let given_up = [id(&cluster.members[1]).await, id(&cluster.members[2]).await];
    cluster.members[0].kill();
    // They are a majority of the old cluster: under a leader of a later term they would take the new one back.
    for round in 0..2 {
        cluster.members[1..].iter_mut().for_each(Member::kill);
        cluster.members[1..].iter_mut().for_each(Member::start);
        writes(&cluster.members[1], &format!("theirs {round}")).await;
    }
    cluster.members[0].start_with_flag("--force-new-cluster");
    writes(&cluster.members[0], "second").await;
    for other in [1, 2] {
        let ended = cluster.members[other].wait_for_end();
        assert!(ended.success(), "{ended}");
        let logged = cluster.members[other].logged();
        assert!(logged.contains("the member has been permanently removed from the cluster"), "{logged}");
    }
    cluster.members[0].kill();
    cluster.members[0].start();
    writes(&cluster.members[0], "third").await;
    for key in ["first", "second", "third"] {
        assert_eq!(get(&mut cluster.members[0].kv(), key).await.unwrap().unwrap(), "1");
    }
    assert_eq!(get(&mut cluster.members[0].kv(), "theirs 0").await.unwrap(), None);
    let listed = list(&cluster.members[0]).await;
    assert!(listed.len() == 1 && !given_up.contains(&listed[0].id), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_can_be_removed_through_itself() {
    let mut cluster = Cluster::start(3).await;
    writes(&cluster.members[0], "first").await;
    let leader = cluster.leader().await;
    let leader_id = id(&cluster.members[leader]).await;
    let left = eventually("it is removed", async || remove(&cluster.members[leader], leader_id).await.ok()).await;
    assert_eq!(left.iter().filter(|member| member.id == leader_id).count(), 0);
    assert!(cluster.members[leader].wait_for_end().success());
    writes(cluster.running(), "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_moves_to_another_address() {
    let mut cluster = Cluster::start(3).await;
    writes(&cluster.members[0], "first").await;
    let moving = (cluster.leader().await + 1) % 3;
    let moving_id = id(&cluster.members[moving]).await;
    let url = format!("http://127.0.0.1:{}", tests::ports::free(1)[0]);
    let request = MemberUpdateRequest { id: moving_id, peer_ur_ls: vec![url.clone()] };
    let members = within(LIMIT, cluster.running().cluster().member_update(request)).await.unwrap().into_inner().members;
    assert!(members.iter().any(|member| member.id == moving_id && member.peer_ur_ls == [url.clone()]));
    let member = &mut cluster.members[moving];
    assert!(member.terminate().success());
    member.set_flag("--listen-peer-urls", &url);
    member.set_flag("--initial-advertise-peer-urls", &url);
    member.start();
    member.wait_for_leader().await;
    // With another one down, every write needs the one that moved.
    let other = (0..3).find(|other| *other != moving).unwrap();
    cluster.members[other].kill();
    writes(&cluster.members[moving], "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_membership_is_durable() {
    let mut cluster = Cluster::start(1).await;
    writes(&cluster.members[0], "first").await;
    grow(&mut cluster, "m2").await;
    let before = list(&cluster.members[0]).await;
    cluster.members.iter_mut().for_each(Member::kill);
    cluster.members.iter_mut().for_each(Member::start);
    for member in &cluster.members {
        member.wait_for_leader().await;
        assert_eq!(list(member).await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_nobody_added_is_told_so() {
    let cluster = Cluster::start(1).await;
    let mut stranger = cluster.newcomer("m2");
    stranger.start();
    assert!(!stranger.wait_for_end().success());
    assert!(stranger.logged().contains("member count is unequal"), "{}", stranger.logged());
    assert!(!stranger.data_dir.join("member/raft").exists());
    let elsewhere = cluster.newcomer("m3");
    add(&cluster.members[0], &elsewhere, true).await.unwrap();
    stranger.start();
    assert!(!stranger.wait_for_end().success());
    assert!(stranger.logged().contains("error validating peerURLs"), "{}", stranger.logged());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lost_its_data_after_joining_may_not_come_back_as_itself() {
    let mut cluster = Cluster::start(1).await;
    writes(&cluster.members[0], "first").await;
    grow(&mut cluster, "m2").await;
    cluster.members[1].kill();
    fs::remove_dir_all(&cluster.members[1].data_dir).unwrap();
    cluster.members[1].start();
    assert!(!cluster.members[1].wait_for_end().success());
    assert!(cluster.members[1].logged().contains("has already been bootstrapped"), "{}", cluster.members[1].logged());
}
