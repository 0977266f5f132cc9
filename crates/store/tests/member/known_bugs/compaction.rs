//! What compaction took along that it should not have.

use std::time::Duration;

use etcd::etcdserverpb::{CompactionRequest, DeleteRangeRequest};
use etcd::mvccpb::event::EventType;

use super::{Watching, all};
use crate::support::{Cluster, put};

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
