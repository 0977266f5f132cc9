//! Members that start with an empty data directory.

use std::{fs, time::Duration};

use crate::support::{Cluster, Member, eventually, get, put, within};

async fn writes(member: &Member, key: &str) {
    eventually(&format!("{key} is written through {}", member.name), async || {
        within(Duration::from_secs(8), put(&mut member.kv(), key, "1")).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lost_its_data_directory_is_refused_and_the_others_write_on() {
    let mut cluster = Cluster::start(3).await;
    let lost = (cluster.leader().await + 1) % 3;
    writes(&cluster.members[lost], "before").await;
    for _ in 0..2 {
        if cluster.members[lost].is_running() {
            cluster.members[lost].kill();
            fs::remove_dir_all(&cluster.members[lost].data_dir).unwrap();
        }
        cluster.members[lost].start();
        assert!(!cluster.members[lost].wait_for_end().success());
        assert!(cluster.members[lost].logged().contains("has already been bootstrapped"));
        assert!(!cluster.members[lost].data_dir.join("member/raft").exists());
    }
    writes(cluster.running(), "after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_starts_late_for_the_first_time_takes_part() {
    let mut cluster = Cluster::not_started(3).await;
    cluster.members[..2].iter_mut().for_each(Member::start);
    writes(&cluster.members[0], "before").await;
    cluster.members[2].start();
    cluster.members[2].wait_for_leader().await;
    assert_eq!(get(&mut cluster.members[2].kv(), "before").await.unwrap().unwrap(), "1");
    cluster.members[0].kill();
    writes(&cluster.members[2], "after").await;
}
