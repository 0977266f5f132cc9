//! What compaction took along that it should not have.

use std::time::Duration;

use etcd::etcdserverpb::{CompactionRequest, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, request_op::Request};
use etcd::mvccpb::event::EventType;

use super::{Watching, all, crashes::all_agree};
use crate::support::{Cluster, get, put};

/// After a crash while tombstones were compacted, the newest revision was an older one, and was given again.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_17780_a_crash_in_compaction_takes_no_revision_back() {
    let mut cluster = Cluster::start(1).await;
    for pause in [0, 1, 3, 10, 30] {
        let mut kv = cluster.members[0].kv();
        for number in 0..200 {
            put(&mut kv, &format!("k{number}"), "x").await.unwrap();
        }
        // The newest revision is one of deletions only.
        let delete = DeleteRangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() };
        let newest = kv.delete_range(delete).await.unwrap().into_inner().header.unwrap().revision;
        let mut compacting = kv.clone();
        let compaction = tokio::spawn(async move { compacting.compact(CompactionRequest { revision: newest, physical: true }).await });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        cluster.members[0].kill();
        // Whether it was acknowledged or cut off makes no difference.
        let _ = compaction.await.unwrap();
        cluster.members[0].start();
        let status = cluster.members[0].wait_for_leader().await;
        assert_eq!(status.header.unwrap().revision, newest, "killed after {pause} ms");
        assert_eq!(put(&mut cluster.members[0].kv(), "next", "").await.unwrap(), newest + 1);
    }
}

/// A watch that began at the compacted revision missed its event when that was a deletion.
#[tokio::test]
async fn etcd_18089_a_deletion_at_the_compacted_revision_is_told() {
    let mut cluster = Cluster::start(1).await;
    let mut kv = cluster.members[0].kv();
    put(&mut kv, "k", "1").await.unwrap();
    let delete = DeleteRangeRequest { key: "k".into(), ..Default::default() };
    let deleted = kv.delete_range(delete).await.unwrap().into_inner().header.unwrap().revision;
    put(&mut kv, "other", "1").await.unwrap();
    kv.compact(CompactionRequest { revision: deleted, physical: true }).await.unwrap();
    for restarted in [false, true] {
        if restarted {
            cluster.members[0].terminate();
            cluster.members[0].start();
            cluster.members[0].wait_for_leader().await;
        }
        let mut stream = Watching::open(&cluster.members[0], [all(deleted)]).await;
        assert!(stream.next().await.created);
        let told = stream.next().await;
        let event = &told.events[0];
        let kv = event.kv.as_ref().unwrap();
        assert_eq!((event.r#type(), &kv.key[..], kv.mod_revision), (EventType::Delete, &b"k"[..], deleted));
    }
}

/// A watch that was opened while the revision it begins at was compacted missed that revision's deletion.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_19179_a_deletion_is_told_to_a_watch_that_is_opened_while_it_is_compacted() {
    let cluster = Cluster::start(1).await;
    let mut kv = cluster.members[0].kv();
    for round in 0..40 {
        put(&mut kv, "k", "1").await.unwrap();
        let delete = DeleteRangeRequest { key: "k".into(), ..Default::default() };
        let deleted = kv.delete_range(delete).await.unwrap().into_inner().header.unwrap().revision;
        let mut compacting = kv.clone();
        let compact = compacting.compact(CompactionRequest { revision: deleted, physical: round % 2 == 0 });
        let (compacted, mut stream) = tokio::join!(compact, Watching::open(&cluster.members[0], [all(deleted)]));
        compacted.unwrap();
        assert!(stream.next().await.created);
        let told = stream.next().await;
        let kinds: Vec<_> = told.events.iter().map(|event| (event.r#type(), event.kv.as_ref().unwrap().mod_revision)).collect();
        assert_eq!(kinds, [(EventType::Delete, deleted)], "round {round}");
    }
}

/// A transaction that read history which was just compacted was refused by the member the client talked to, and done by the
/// others.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_18667_a_transaction_that_reads_compacted_history_is_done_by_all_members_or_by_none() {
    let cluster = Cluster::start(3).await;
    let op = |request| RequestOp { request: Some(request) };
    let (mut done, mut refused) = (0, 0);
    for round in 0..30 {
        let mut kv = cluster.members[round % 3].kv();
        let old = put(&mut kv, "k", "old").await.unwrap();
        let newest = put(&mut kv, "k", "new").await.unwrap();
        let read = RangeRequest { key: "k".into(), revision: old, ..Default::default() };
        let write = PutRequest { key: format!("written {round}").into(), value: "x".into(), ..Default::default() };
        let txn = TxnRequest { success: vec![op(Request::RequestPut(write)), op(Request::RequestRange(read))], ..Default::default() };
        let (mut one, mut other) = (cluster.members[(round + 1) % 3].kv(), cluster.members[(round + 2) % 3].kv());
        let compact = async {
            // At another moment each time.
            tokio::time::sleep(Duration::from_micros(200 * (round as u64 % 6))).await;
            one.compact(CompactionRequest { revision: newest, physical: false }).await
        };
        // In the last round there is no doubt which came first.
        let (compacted, answered) = if round == 29 { (compact.await, other.txn(txn).await) } else { tokio::join!(compact, other.txn(txn)) };
        compacted.unwrap();
        let written = get(&mut kv, &format!("written {round}")).await.unwrap();
        match answered {
            Ok(_) => {
                assert!(written.is_some(), "done in round {round}");
                done += 1;
            }
            Err(status) => {
                assert_eq!(status.message(), "etcdserver: mvcc: required revision has been compacted");
                assert_eq!(written, None, "refused in round {round}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "{done} done");
    all_agree(&cluster).await;
}
