//! The Lock and Election services.

use std::time::Duration;

use etcd::etcdserverpb::{LeaseRevokeRequest, LeaseTimeToLiveRequest};
use etcd::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ResignRequest, election_client::ElectionClient,
};
use etcd::v3lockpb::{LockRequest, UnlockRequest};

use crate::talk::{Ask, PATIENCE, Talk, range};
use crate::text::{Text, refusal};

crate::cases![
    a_lock_is_held_by_a_key_under_its_lease,
    who_holds_a_lock_has_it_again_at_once,
    a_lock_waits_its_turn,
    a_lock_without_a_lease_gets_one,
    a_lock_under_a_lease_that_is_not_is_refused,
    a_waiting_lock_is_lost_with_its_lease,
    unlocking_twice_harms_nothing,
    a_leader_is_elected_proclaims_and_resigns,
    who_does_not_lead_cannot_speak,
    an_election_without_candidates_has_no_leader,
    a_leader_must_be_named,
    candidates_follow_in_their_order,
    observers_hear_each_leader,
];

fn lock(lease: i64) -> LockRequest {
    LockRequest { name: "door".into(), lease }
}

fn campaign(lease: i64, value: &str) -> CampaignRequest {
    CampaignRequest { name: "seat".into(), lease, value: value.to_owned().into() }
}

/// A request that is answered later; within a `LocalSet`.
fn later<R: Ask + 'static>(talk: &Talk, request: R) -> tokio::task::JoinHandle<String> {
    let (channel, frame) = (talk.channel.clone(), talk.frame);
    tokio::task::spawn_local(async move {
        match request.ask(channel).await {
            Ok(answer) => answer.text(&frame),
            Err(status) => refusal(&status),
        }
    })
}

/// Waits until so many stand in a line.
async fn wait_for(talk: &Talk, line: &str, end: &str, count: usize) {
    let ask = async || talk.get(range(line, end)).await.kvs.len();
    let many = async {
        while ask().await < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, many).await.expect("a line in time");
}

async fn a_lock_is_held_by_a_key_under_its_lease(talk: &mut Talk) {
    talk.grant(0x7b, 600).await;
    talk.ask(lock(0x7b), "@1 locked door/7b").await;
    talk.ask(range("door", "doos"), "@1 [door/7b= c1 m1 v1 l123] of 1").await;
    talk.ask(UnlockRequest { key: "door/7b".into() }, "@2").await;
    talk.ask(range("door", "doos"), "@2 [] of 0").await;
}

async fn who_holds_a_lock_has_it_again_at_once(talk: &mut Talk) {
    talk.grant(7, 600).await;
    talk.ask(lock(7), "@1 locked door/7").await;
    talk.ask(lock(7), "@1 locked door/7").await;
}

async fn a_lock_waits_its_turn(talk: &mut Talk) {
    for lease in [7, 8, 9] {
        talk.grant(lease, 600).await;
    }
    talk.ask(lock(7), "@1 locked door/7").await;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let second = later(talk, lock(8));
            wait_for(talk, "door", "doos", 2).await;
            let third = later(talk, lock(9));
            wait_for(talk, "door", "doos", 3).await;
            talk.ask(UnlockRequest { key: "door/7".into() }, "@4").await;
            assert_eq!(second.await.unwrap(), "@4 locked door/8");
            assert!(!third.is_finished(), "two hold the lock");
            talk.ask(LeaseRevokeRequest { id: 8 }, "@5").await;
            assert_eq!(third.await.unwrap(), "@5 locked door/9");
        })
        .await;
}

async fn a_lock_without_a_lease_gets_one(talk: &mut Talk) {
    let key = String::from_utf8(talk.get(lock(0)).await.key.to_vec()).unwrap();
    let lease = i64::from_str_radix(key.strip_prefix("door/").unwrap(), 16).unwrap();
    let asked = LeaseTimeToLiveRequest { id: lease, keys: true };
    talk.ask(asked, format!("@1 lease {lease} for 60 s, fresh [{key}]")).await;
}

async fn a_lock_under_a_lease_that_is_not_is_refused(talk: &mut Talk) {
    talk.ask(lock(99), "Unknown: etcdserver: requested lease not found").await;
    talk.ask(range("door", "doos"), "@0 [] of 0").await;
}

async fn a_waiting_lock_is_lost_with_its_lease(talk: &mut Talk) {
    talk.grant(7, 600).await;
    talk.grant(8, 600).await;
    talk.ask(lock(7), "@1 locked door/7").await;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let second = later(talk, lock(8));
            wait_for(talk, "door", "doos", 2).await;
            talk.get(LeaseRevokeRequest { id: 8 }).await;
            talk.get(UnlockRequest { key: "door/7".into() }).await;
            assert_eq!(second.await.unwrap(), "Unknown: mutex: session is expired");
        })
        .await;
}

async fn unlocking_twice_harms_nothing(talk: &mut Talk) {
    talk.ask(UnlockRequest { key: "door/7".into() }, "@0").await;
    talk.ask(UnlockRequest { key: "".into() }, "Unknown: etcdserver: key is not provided").await;
}

async fn elected(talk: &Talk, lease: i64, value: &str) -> LeaderKey {
    talk.get(campaign(lease, value)).await.leader.unwrap()
}

async fn a_leader_is_elected_proclaims_and_resigns(talk: &mut Talk) {
    talk.grant(0x7b, 600).await;
    talk.ask(campaign(0x7b, "first"), "@1 seat by seat/7b c1 l123").await;
    let name = || LeaderRequest { name: "seat".into() };
    talk.ask(name(), "@1 seat/7b=first c1 m1 v1 l123").await;
    // Campaigning again is proclaiming.
    talk.ask(campaign(0x7b, "second"), "@1 seat by seat/7b c1 l123").await;
    talk.ask(name(), "@2 seat/7b=second c1 m2 v2 l123").await;
    let leader = elected(talk, 0x7b, "second").await;
    let proclaim = ProclaimRequest { leader: Some(leader.clone()), value: "third".into() };
    talk.ask(proclaim, "@3").await;
    talk.ask(name(), "@3 seat/7b=third c1 m3 v3 l123").await;
    talk.ask(ResignRequest { leader: Some(leader) }, "@4").await;
    talk.ask(name(), "Unknown: election: no leader").await;
}

async fn who_does_not_lead_cannot_speak(talk: &mut Talk) {
    talk.grant(7, 600).await;
    let leader = elected(talk, 7, "x").await;
    let before = LeaderKey { rev: leader.rev - 1, ..leader.clone() };
    talk.ask(ProclaimRequest { leader: Some(before.clone()), value: "y".into() }, "Unknown: election: not leader").await;
    talk.ask(ResignRequest { leader: Some(before) }, "@1").await;
    talk.ask(LeaderRequest { name: "seat".into() }, "@1 seat/7=x c1 m1 v1 l7").await;
}

async fn an_election_without_candidates_has_no_leader(talk: &mut Talk) {
    talk.put("seat", "x").await;
    talk.put("seats/7", "x").await;
    talk.ask(LeaderRequest { name: "seat".into() }, "Unknown: election: no leader").await;
}

async fn a_leader_must_be_named(talk: &mut Talk) {
    let missing = r#"Unknown: "leader" field must be provided"#;
    talk.ask(ProclaimRequest { leader: None, value: "x".into() }, missing).await;
    talk.ask(ResignRequest { leader: None }, missing).await;
}

async fn candidates_follow_in_their_order(talk: &mut Talk) {
    for lease in [7, 8] {
        talk.grant(lease, 600).await;
    }
    let first = elected(talk, 7, "first").await;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let second = later(talk, campaign(8, "second"));
            wait_for(talk, "seat/", "seat0", 2).await;
            talk.ask(LeaderRequest { name: "seat".into() }, "@2 seat/7=first c1 m1 v1 l7").await;
            talk.ask(ResignRequest { leader: Some(first) }, "@3").await;
            assert_eq!(second.await.unwrap(), "@2 seat by seat/8 c2 l8");
        })
        .await;
}

async fn observers_hear_each_leader(talk: &mut Talk) {
    talk.grant(7, 600).await;
    let leader = elected(talk, 7, "one").await;
    let mut client = ElectionClient::new(talk.channel.clone());
    let mut words = client.observe(LeaderRequest { name: "seat".into() }).await.unwrap().into_inner();
    let mut next = async || -> LeaderResponse {
        let word = tokio::time::timeout(PATIENCE, words.message()).await.expect("word in time");
        word.unwrap().expect("the stream goes on")
    };
    assert_eq!(next().await.text(&talk.frame), "@1 seat/7=one c1 m1 v1 l7");
    talk.get(ProclaimRequest { leader: Some(leader), value: "two".into() }).await;
    assert_eq!(next().await.text(&talk.frame), "@2 seat/7=two c1 m2 v2 l7");
}
