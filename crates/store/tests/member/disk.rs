//! Disks that fail.

use crate::support::{Cluster, eventually, get, put};

#[tokio::test]
async fn a_failed_write_stops_the_member_with_its_cause_and_loses_nothing() {
    let mut cluster = Cluster::start(1).await;
    cluster.members[0].terminate();
    cluster.members[0].start_with_largest_file(1000);
    cluster.members[0].wait_for_leader().await;
    let (mut kv, value) = (cluster.members[0].kv(), "x".repeat(100_000));
    let mut acknowledged = 0;
    while put(&mut kv, &format!("k{acknowledged}"), &value).await.is_ok() {
        acknowledged += 1;
        assert!(acknowledged < 100, "the disk never filled");
    }
    assert!(!cluster.members[0].wait_for_end().success());
    assert!(cluster.members[0].logged().contains("File too large"));
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    for number in 0..acknowledged {
        let found = eventually("it reads", async || get(&mut cluster.members[0].kv(), &format!("k{number}")).await.ok());
        assert_eq!(found.await.as_ref(), Some(&value));
    }
}
