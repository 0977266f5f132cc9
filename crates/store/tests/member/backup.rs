//! Snapshots taken from a running member, and clusters made from them.

use std::path::Path;

use etcd::etcdserverpb::{HashKvRequest, SnapshotRequest};
use sha2::{Digest, Sha256};

use crate::support::{Cluster, Member, eventually, get, put};

/// Takes a snapshot as etcdctl does; its bytes.
async fn snapshot(member: &Member) -> Vec<u8> {
    let mut stream = member.maintenance().snapshot(SnapshotRequest {}).await.unwrap().into_inner();
    let (mut bytes, mut left) = (Vec::new(), None);
    while let Some(part) = stream.message().await.unwrap() {
        assert_eq!(part.version, "3.6.0");
        if let Some(left) = left.filter(|left| *left > 0) {
            assert_eq!(part.remaining_bytes, left - part.blob.len() as u64, "every message says how much is to come");
        }
        left = Some(part.remaining_bytes);
        bytes.extend_from_slice(&part.blob);
    }
    let (data, sum) = bytes.split_at(bytes.len() - 32);
    assert_eq!(Sha256::digest(data)[..], *sum);
    assert_eq!(data.len() % 4096, 0);
    bytes
}

async fn hash(member: &Member) -> (u32, i64) {
    let response = member.maintenance().hash_kv(HashKvRequest { revision: 0 }).await.unwrap().into_inner();
    (response.hash, response.hash_revision)
}

fn restore(member: &Member, file: &Path) {
    let output = member.restore(file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_restored_from_one_file_are_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot.db");
    let origin = Cluster::start(1).await;
    for i in 0..50 {
        put(&mut origin.members[0].kv(), &format!("key-{i}"), &"v".repeat(1000)).await.unwrap();
    }
    std::fs::write(&file, snapshot(&origin.members[0]).await).unwrap();
    let before = hash(&origin.members[0]).await;

    let mut cluster = Cluster::not_started(3).await;
    cluster.members.iter().for_each(|member| restore(member, &file));
    cluster.members.iter_mut().for_each(Member::start);
    for member in &cluster.members {
        member.wait_for_leader().await;
        assert_eq!(get(&mut member.kv(), "key-7").await.unwrap().unwrap(), "v".repeat(1000));
        assert_eq!(hash(member).await, before);
    }
    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    let survivor = &cluster.members[(leader + 1) % 3];
    let revision = eventually("the others write on", async || put(&mut survivor.kv(), "after", "1").await.ok()).await;
    assert_eq!(revision, before.1 + 1);
    cluster.members[leader].start();
    let back = &cluster.members[leader];
    eventually("it catches up", async || get(&mut back.kv(), "after").await.ok().flatten()).await;
    assert_eq!(hash(back).await, hash(&cluster.members[(leader + 1) % 3]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_in_use_is_never_restored_over() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot.db");
    let mut cluster = Cluster::start(1).await;
    put(&mut cluster.members[0].kv(), "kept", "1").await.unwrap();
    std::fs::write(&file, snapshot(&cluster.members[0]).await).unwrap();
    let member = &mut cluster.members[0];
    assert!(member.terminate().success());
    let output = member.restore(&file);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty or could not be read"));
    member.start();
    member.wait_for_leader().await;
    assert_eq!(get(&mut member.kv(), "kept").await.unwrap().unwrap(), "1");
}
