//! Members whose database was changed behind their back.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use etcd::etcdserverpb::CompactionRequest;
use store::disk::{Batch, Column, Home as _, RocksHome, Shared};
use tonic::Code;

use crate::support::{Cluster, Member, eventually, get, put};

/// Changes the last byte of a key's value in a database that nobody has open.
fn flip(data_dir: &Path, key: &str) {
    let home = RocksHome::open(data_dir.join("member"), Arc::<Shared>::default()).unwrap();
    let database = home.current();
    let mut row = database.get(Column::Current, key.as_bytes()).unwrap().expect("the key is there").to_vec();
    *row.last_mut().unwrap() ^= 1;
    let mut batch = Batch::default();
    batch.put(Column::Current, Bytes::copy_from_slice(key.as_bytes()), row);
    database.write(batch).unwrap();
    database.sync().unwrap();
}

/// A cluster with a key, and a follower that has something else under it; the follower does not run.
async fn with_one_corrupt(flags: &[&str]) -> (Cluster, usize) {
    let mut cluster = Cluster::start_with(3, flags).await;
    let victim = (cluster.leader().await + 1) % 3;
    put(&mut cluster.members[victim].kv(), "key", "right").await.unwrap();
    assert!(cluster.members[victim].terminate().success());
    flip(&cluster.members[victim].data_dir, "key");
    (cluster, victim)
}

/// Waits for the alarm of a member, as another one tells.
async fn alarmed(witness: &Member, id: u64) {
    let alarm = format!("memberID:{id} alarm:CORRUPT");
    let told = async || witness.status().await.ok()?.errors.iter().any(|error| error.contains(&alarm)).then_some(());
    eventually(&alarm, told).await;
}

async fn refuses_changes(member: &Member) {
    let refused = put(&mut member.kv(), "key", "new").await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::DataLoss, "etcdserver: corrupt cluster"));
    // As in etcd, reads go on.
    assert!(get(&mut member.kv(), "key").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_differs_from_its_peers_does_not_start() {
    let (mut cluster, victim) = with_one_corrupt(&["--experimental-initial-corrupt-check"]).await;
    cluster.members[victim].start();
    assert!(!cluster.members[victim].wait_for_end().success());
    let log = cluster.members[victim].logged();
    assert!(log.contains("found data inconsistency with peers"), "{log}");
    // One that does not is let in.
    flip(&cluster.members[victim].data_dir, "key");
    cluster.members[victim].start();
    cluster.members[victim].wait_for_leader().await;
    assert_eq!(get(&mut cluster.members[victim].kv(), "key").await.unwrap().unwrap(), "right");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_finds_a_member_that_differs_and_no_change_is_taken_any_more() {
    let (mut cluster, victim) = with_one_corrupt(&["--corrupt-check-time", "500ms"]).await;
    cluster.members[victim].start();
    cluster.members[victim].wait_for_leader().await;
    let id = cluster.members[victim].id().await;
    for member in &cluster.members {
        alarmed(member, id).await;
        refuses_changes(member).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_differs_is_found_at_a_compaction() {
    let flags = ["--feature-gates", "CompactHashCheck=true", "--compact-hash-check-time", "300ms"];
    let (mut cluster, victim) = with_one_corrupt(&flags).await;
    cluster.members[victim].start();
    cluster.members[victim].wait_for_leader().await;
    let (id, witness) = (cluster.members[victim].id().await, (victim + 1) % 3);
    let mut kv = cluster.members[witness].kv();
    let revision = put(&mut kv, "other", "1").await.unwrap();
    kv.compact(CompactionRequest { revision, physical: false }).await.unwrap();
    alarmed(&cluster.members[witness], id).await;
    refuses_changes(&cluster.members[witness]).await;
}
