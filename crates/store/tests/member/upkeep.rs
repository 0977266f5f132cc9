//! A store that keeps itself: history given up by itself, space minded.

use std::time::Duration;

use etcd::etcdserverpb::{
    AlarmRequest, CompactionRequest, DefragmentRequest, DeleteRangeRequest, RangeRequest, RequestOp, TxnRequest,
    alarm_request::AlarmAction, request_op::Request,
};
use tonic::{Code, Status};

use crate::support::{Cluster, Member, eventually, get, put};

const FULL: &str = "etcdserver: mvcc: database space exceeded";

async fn read_at(member: &Member, key: &str, revision: i64) -> Result<Option<String>, Status> {
    let request = RangeRequest { key: key.to_owned().into(), revision, ..Default::default() };
    let found = member.kv().range(request).await?.into_inner().kvs.pop();
    Ok(found.map(|kv| String::from_utf8(kv.value.to_vec()).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn history_older_than_the_retention_is_given_up_by_itself_and_younger_is_kept() {
    let cluster = Cluster::start_with(3, &["--auto-compaction-retention", "2s", "--auto-compaction-mode=periodic"]).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    let old = put(&mut member.kv(), "key", "old").await.unwrap();
    put(&mut member.kv(), "key", "new").await.unwrap();
    assert_eq!(read_at(member, "key", old).await.unwrap().unwrap(), "old");
    let given_up = eventually("the old version is compacted", async || read_at(member, "key", old).await.err()).await;
    assert_eq!(given_up.message(), "etcdserver: mvcc: required revision has been compacted");
    let young = put(&mut member.kv(), "key", "newer").await.unwrap();
    put(&mut member.kv(), "key", "newest").await.unwrap();
    assert_eq!(read_at(member, "key", young).await.unwrap().unwrap(), "newer");
    let compactors = cluster.members.iter().filter(|member| member.logged().contains("completed auto compaction")).count();
    assert_eq!(compactors, 1, "only the leader compacts");
}

/// Puts values that do not compress until one is refused.
async fn fill(member: &Member) -> Status {
    let mut state = 1u64;
    let value: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(33 + (state >> 33) as u8 % 90)
    })
    .take(300_000)
    .collect();
    for number in 0..50 {
        if let Err(status) = put(&mut member.kv(), &format!("fill/{number}"), &value).await {
            return status;
        }
    }
    panic!("the quota was never felt");
}

/// Deletes what was filled, gives up history and gives back the space, on all members.
async fn make_room(cluster: &Cluster) {
    let mut kv = cluster.members[0].kv();
    let delete = DeleteRangeRequest { key: "fill/".into(), range_end: "fill0".into(), ..Default::default() };
    let revision = kv.delete_range(delete).await.unwrap().into_inner().header.unwrap().revision;
    kv.compact(CompactionRequest { revision, physical: true }).await.unwrap();
    for member in &cluster.members {
        // Only the member that was asked has surely finished compacting; each gives back what it has removed by then.
        eventually("there is room again", async || {
            member.maintenance().defragment(DefragmentRequest {}).await.ok()?;
            (member.status().await.ok()?.db_size < 2_000_000).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_member_stops_all_from_taking_what_needs_space_until_it_is_disarmed() {
    let cluster = Cluster::start_with(3, &["--quota-backend-bytes", "4000000"]).await;
    let (asked, other) = (&cluster.members[0], &cluster.members[1]);
    asked.wait_for_leader().await;
    let refused = fill(asked).await;
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, FULL));
    let alarms = eventually("the alarm is raised", async || {
        let get = AlarmRequest { action: AlarmAction::Get as i32, ..Default::default() };
        let alarms = other.maintenance().alarm(get).await.ok()?.into_inner().alarms;
        (!alarms.is_empty()).then_some(alarms)
    })
    .await;
    assert!(alarms.iter().all(|alarm| alarm.alarm == 1), "{alarms:?}");
    assert_eq!(put(&mut other.kv(), "small", "1").await.unwrap_err().message(), FULL);
    let grant = etcd::etcdserverpb::LeaseGrantRequest { ttl: 60, id: 0 };
    assert_eq!(other.lease().lease_grant(grant).await.unwrap_err().message(), FULL);
    let op = |request| RequestOp { request: Some(request) };
    let put_op = op(Request::RequestPut(etcd::etcdserverpb::PutRequest { key: "k".into(), ..Default::default() }));
    let txn = |op| TxnRequest { success: vec![op], ..Default::default() };
    assert_eq!(other.kv().txn(txn(put_op)).await.unwrap_err().message(), FULL);
    let delete_op = op(Request::RequestDeleteRange(DeleteRangeRequest { key: "k".into(), ..Default::default() }));
    other.kv().txn(txn(delete_op)).await.unwrap();
    assert!(get(&mut other.kv(), "fill/0").await.unwrap().is_some());
    make_room(&cluster).await;
    eventually("it is disarmed", async || {
        let get = AlarmRequest { action: AlarmAction::Get as i32, ..Default::default() };
        for raised in other.maintenance().alarm(get).await.ok()?.into_inner().alarms {
            let action = AlarmAction::Deactivate as i32;
            let disarm = AlarmRequest { action, member_id: raised.member_id, alarm: raised.alarm };
            other.maintenance().alarm(disarm).await.ok()?;
        }
        put(&mut other.kv(), "small", "1").await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_space_alarm_clears_itself_where_that_is_asked_for() {
    let cluster = Cluster::start_with(1, &["--quota-backend-bytes", "4000000", "--quota-auto-disarm"]).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    fill(member).await;
    assert!(member.status().await.unwrap().errors.iter().any(|error| error.contains("alarm:NOSPACE")));
    make_room(&cluster).await;
    eventually("writes are taken again", async || put(&mut member.kv(), "small", "1").await.ok()).await;
    assert!(member.status().await.unwrap().errors.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_what_was_compacted_keeps_no_write_waiting() {
    let flags = ["--compaction-batch-limit=50", "--experimental-compaction-sleep-interval=1ms"];
    let cluster = Cluster::start_with(1, &flags).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    let mut kv = member.kv();
    for round in 0..10 {
        let ops = (0..100).map(|number| etcd::etcdserverpb::PutRequest {
            key: format!("k{number}").into(),
            value: vec![round; 100].into(),
            ..Default::default()
        });
        let success = ops.map(|put| RequestOp { request: Some(Request::RequestPut(put)) }).collect();
        kv.txn(TxnRequest { success, ..Default::default() }).await.unwrap();
    }
    let compact = async { member.kv().compact(CompactionRequest { revision: 11, physical: true }).await.unwrap() };
    let mut slowest = Duration::ZERO;
    let write = async {
        for number in 0..20 {
            let start = std::time::Instant::now();
            put(&mut member.kv(), &format!("w{number}"), "1").await.unwrap();
            slowest = slowest.max(start.elapsed());
        }
    };
    tokio::join!(compact, write);
    assert!(slowest < Duration::from_secs(1), "a write took {slowest:?}");
    eventually("the log tells", async || member.logged().contains("finished scheduled compaction").then_some(())).await;
}
