//! Disks that fail.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

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

/// A small file system in memory; it goes with this.
struct Mounted(PathBuf);

impl Mounted {
    /// `None`, with a word about it, where that is not allowed.
    fn on(directory: &Path) -> Option<Self> {
        std::fs::create_dir_all(directory).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=48m", "tmpfs"], directory);
        if !mounted {
            eprintln!("skipped: a file system of its own needs root that may mount one");
        }
        mounted.then(|| Self(directory.to_owned()))
    }

    fn grow(&self) {
        assert!(mount(&["-o", "remount,size=256m"], &self.0));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(args: &[&str], on: &Path) -> bool {
    Command::new("mount").args(args).arg(on).output().is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn a_full_disk_stops_the_member_with_its_cause_and_with_more_space_it_goes_on() {
    let mut cluster = Cluster::not_started(1).await;
    let Some(disk) = Mounted::on(&cluster.members[0].data_dir) else { return };
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    let (mut kv, value) = (cluster.members[0].kv(), "x".repeat(200_000));
    let mut acknowledged = 0;
    while put(&mut kv, &format!("k{acknowledged}"), &value).await.is_ok() {
        acknowledged += 1;
        assert!(acknowledged < 1000, "the disk never filled");
    }
    assert!(!cluster.members[0].wait_for_end().success());
    assert!(cluster.members[0].logged().contains("No space left on device"));
    disk.grow();
    cluster.members[0].start();
    cluster.members[0].wait_for_leader().await;
    for number in 0..acknowledged {
        let found = eventually("it reads", async || get(&mut cluster.members[0].kv(), &format!("k{number}")).await.ok());
        assert_eq!(found.await.as_ref(), Some(&value), "k{number} of {acknowledged}");
    }
    put(&mut cluster.members[0].kv(), "next", "1").await.unwrap();
}
