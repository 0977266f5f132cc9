//! One member alone.

use std::time::{Duration, Instant};

use etcd::etcdserverpb::{
    AlarmRequest, CompactionRequest, DefragmentRequest, DeleteRangeRequest, RangeRequest, alarm_request::AlarmAction, kv_client::KvClient,
    maintenance_client::MaintenanceClient,
};
use tonic::{Code, transport::Channel};

use crate::support::{Cluster, eventually, get, put};

#[tokio::test]
async fn a_fresh_member_serves_at_once() {
    let cluster = Cluster::start_with(1, &[]).await;
    let start = Instant::now();
    let mut kv = cluster.members[0].kv();
    let revision = eventually("a write is acknowledged", async || put(&mut kv.clone(), "a", "1").await.ok()).await;
    assert_eq!(revision, 2);
    assert_eq!(get(&mut kv, "a").await.unwrap().unwrap(), "1");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_killed_member_comes_back_with_every_acknowledged_write() {
    let mut cluster = Cluster::start(1).await;
    let mut kv = cluster.members[0].kv();
    for number in 0..100 {
        put(&mut kv, &format!("k{number}"), &number.to_string()).await.unwrap();
    }
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    let mut kv = cluster.members[0].kv();
    for number in 0..100 {
        assert_eq!(get(&mut kv, &format!("k{number}")).await.unwrap(), Some(number.to_string()));
    }
    assert_eq!(put(&mut kv, "next", "").await.unwrap(), 102);
}

#[tokio::test]
async fn a_member_alone_leads_at_once_after_a_restart() {
    let timeout = Duration::from_secs(10);
    let mut cluster = Cluster::start_with(1, &["--election-timeout", "10000"]).await;
    cluster.members[0].wait_for_leader().await;
    put(&mut cluster.members[0].kv(), "a", "1").await.unwrap();
    cluster.members[0].kill();
    cluster.members[0].start();
    let start = Instant::now();
    let mut kv = cluster.members[0].kv();
    eventually("a write is acknowledged", async || put(&mut kv.clone(), "b", "1").await.ok()).await;
    assert!(start.elapsed() < timeout / 2, "the first write took {:?}", start.elapsed());
    assert_eq!(get(&mut kv, "a").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn sigterm_ends_it_cleanly_and_a_restart_goes_on() {
    let mut cluster = Cluster::start(1).await;
    put(&mut cluster.members[0].kv(), "a", "1").await.unwrap();
    assert!(cluster.members[0].terminate().success());
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    assert_eq!(get(&mut cluster.members[0].kv(), "a").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn snapshots_let_go_of_the_log_and_survive_a_kill() {
    let mut cluster = Cluster::start_with(1, &["--snapshot-count", "50"]).await;
    cluster.members[0].wait_for_leader().await;
    let mut kv = cluster.members[0].kv();
    // A slow disk takes one snapshot while hundreds are written: the second one needs writes after it.
    eventually("two snapshots are taken", async || {
        put(&mut kv.clone(), "more", "").await.unwrap();
        (cluster.members[0].logged().matches("took a snapshot").count() >= 2).then_some(())
    })
    .await;
    for number in 390..400 {
        put(&mut kv, &format!("k{}", number % 10), &number.to_string()).await.unwrap();
    }
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    let mut kv = cluster.members[0].kv();
    for number in 390..400 {
        assert_eq!(get(&mut kv, &format!("k{}", number % 10)).await.unwrap(), Some(number.to_string()));
    }
}

async fn get_revision(kv: &mut KvClient<Channel>) -> i64 {
    let request = RangeRequest { key: "any".into(), ..Default::default() };
    kv.range(request).await.unwrap().into_inner().header.unwrap().revision
}

#[tokio::test]
async fn a_database_over_its_quota_refuses_what_needs_space_until_disarmed() {
    let cluster = Cluster::start_with(1, &["--quota-backend-bytes", "3000000"]).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    let (mut kv, value) = (member.kv(), "x".repeat(500_000));
    let refused = eventually("the quota is felt", async || put(&mut kv.clone(), "big", &value).await.err()).await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "etcdserver: mvcc: database space exceeded");
    assert!(member.status().await.unwrap().errors.iter().any(|error| error.contains("alarm:NOSPACE")));
    let delete = DeleteRangeRequest { key: "big".into(), ..Default::default() };
    assert_eq!(kv.delete_range(delete).await.unwrap().into_inner().deleted, 1);
    // As etcd documents it: give up history, give back the space, then take the alarm back.
    let revision = get_revision(&mut kv).await;
    kv.compact(CompactionRequest { revision, physical: true }).await.unwrap();
    let mut maintenance = MaintenanceClient::new(member.channel());
    maintenance.defragment(DefragmentRequest {}).await.unwrap();
    let still = put(&mut kv, "small", "1").await.unwrap_err();
    assert_eq!(still.message(), "etcdserver: mvcc: database space exceeded");
    let raised = maintenance.alarm(AlarmRequest::default()).await.unwrap().into_inner().alarms.remove(0);
    let disarm = AlarmRequest { action: AlarmAction::Deactivate as i32, member_id: raised.member_id, alarm: raised.alarm };
    assert_eq!(maintenance.alarm(disarm).await.unwrap().into_inner().alarms.len(), 1);
    put(&mut kv, "small", "1").await.unwrap();
}
