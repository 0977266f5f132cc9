//! Locks and elections through the wire.

use super::local::{Served, serve};
use crate::rpc::Limits;
use etcd::{
    v3electionpb::{CampaignRequest, LeaderRequest, ProclaimRequest, ResignRequest, election_client::ElectionClient},
    v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
};
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::Channel;

const LONG: Duration = Duration::from_secs(20);

async fn channel(served: &Served) -> Channel {
    Channel::from_shared(served.url.clone()).unwrap().connect().await.unwrap()
}

async fn lock(channel: Channel, lease: i64) -> Result<bytes::Bytes, tonic::Status> {
    let request = LockRequest { name: "l".into(), lease };
    Ok(LockClient::new(channel).lock(request).await?.into_inner().key)
}

async fn keys(served: &Served) -> i64 {
    let all = etcd::etcdserverpb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    served.client.range(all).await.unwrap().count
}

#[tokio::test]
async fn a_lock_has_one_holder_and_passes_on_in_order() {
    let served = serve(Limits::default()).await;
    let channel = channel(&served).await;
    for lease in [10, 11, 12] {
        served.client.lease_grant(600, lease).await.unwrap();
    }
    let first = lock(channel.clone(), 10).await.unwrap();
    assert_eq!(first, "l/a");
    assert_eq!(lock(channel.clone(), 10).await.unwrap(), first, "who holds it has it again at once");
    let second = tokio::spawn(lock(channel.clone(), 11));
    while keys(&served).await < 2 {
        tokio::task::yield_now().await;
    }
    let third = tokio::spawn(lock(channel.clone(), 12));
    while keys(&served).await < 3 {
        tokio::task::yield_now().await;
    }
    assert!(!second.is_finished() && !third.is_finished());
    LockClient::new(channel.clone()).unlock(UnlockRequest { key: first }).await.unwrap();
    let second = timeout(LONG, second).await.unwrap().unwrap().unwrap();
    assert_eq!(second, "l/b");
    assert!(!third.is_finished());
    served.client.lease_revoke(11).await.unwrap();
    assert_eq!(timeout(LONG, third).await.unwrap().unwrap().unwrap(), "l/c");
}

#[tokio::test]
async fn who_gives_up_waiting_leaves_the_line_and_who_loses_its_lease_is_told() {
    let served = serve(Limits::default()).await;
    let channel = channel(&served).await;
    for lease in [10, 11, 12] {
        served.client.lease_grant(600, lease).await.unwrap();
    }
    lock(channel.clone(), 10).await.unwrap();
    let impatient = tokio::spawn(lock(channel.clone(), 11));
    while keys(&served).await < 2 {
        tokio::task::yield_now().await;
    }
    impatient.abort();
    timeout(LONG, async {
        while keys(&served).await > 1 {
            tokio::task::yield_now().await
        }
    })
    .await
    .unwrap();
    let expired = tokio::spawn(lock(channel.clone(), 12));
    while keys(&served).await < 2 {
        tokio::task::yield_now().await;
    }
    served.client.lease_revoke(12).await.unwrap();
    let told = timeout(LONG, expired).await.unwrap().unwrap().unwrap_err();
    assert_eq!(told.message(), "mutex: session is expired");
    let unknown = lock(channel, 99).await.unwrap_err();
    assert_eq!(unknown.message(), "etcdserver: requested lease not found");
}

#[tokio::test]
async fn an_election_is_won_observed_and_resigned() {
    let served = serve(Limits::default()).await;
    let mut client = ElectionClient::new(channel(&served).await);
    let name = || LeaderRequest { name: "e".into() };
    assert_eq!(client.leader(name()).await.unwrap_err().message(), "election: no leader");
    let mut words = client.observe(name()).await.unwrap().into_inner();
    let campaign = |value: &'static str| CampaignRequest { name: "e".into(), lease: 0, value: value.into() };
    let first = client.campaign(campaign("one")).await.unwrap().into_inner().leader.unwrap();
    let mut next = async || timeout(LONG, words.message()).await.unwrap().unwrap().unwrap().kv.unwrap().value;
    assert_eq!(next().await, "one");
    client.proclaim(ProclaimRequest { leader: Some(first.clone()), value: "uno".into() }).await.unwrap();
    assert_eq!(next().await, "uno");
    let rival = tokio::spawn({
        let mut client = client.clone();
        async move { client.campaign(campaign("two")).await }
    });
    while keys(&served).await < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.leader(name()).await.unwrap().into_inner().kv.unwrap().value, "uno");
    client.resign(ResignRequest { leader: Some(first.clone()) }).await.unwrap();
    timeout(LONG, rival).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await, "two");
    let late = client.proclaim(ProclaimRequest { leader: Some(first), value: "late".into() }).await.unwrap_err();
    assert_eq!(late.message(), "election: not leader");
    let nobody = client.resign(ResignRequest { leader: None }).await.unwrap_err();
    assert_eq!(nobody.message(), "\"leader\" field must be provided");
}
