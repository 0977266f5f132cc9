//! A cluster of which one member is left.

use std::process::Command;
use std::time::Duration;

use tests::{Background, Maker, Output, eventually, ports::free, run, within};

use crate::process::MAKERS;

fn etcdctl(port: u16, args: &[&str]) -> Output {
    let mut command = Command::new("etcdctl");
    let endpoint = format!("--endpoints=http://127.0.0.1:{port}");
    run(command.env("ETCDCTL_API", "3").args([&endpoint, "--command-timeout=2s"]).args(args))
}

struct Cluster {
    maker: Maker,
    ports: Vec<u16>,
    directory: tempfile::TempDir,
}

impl Cluster {
    fn start(&self, number: usize, flags: &[&str]) -> Background {
        let url = |port: usize| format!("http://127.0.0.1:{}", self.ports[port]);
        let listed: Vec<_> = (0..3).map(|number| format!("m{number}={}", url(number))).collect();
        let mut command = Command::new(self.maker.server());
        command.arg(format!("--name=m{number}"));
        command.arg(format!("--data-dir={}", self.directory.path().join(format!("m{number}")).display()));
        command.args(["--listen-client-urls", &url(number + 3), "--advertise-client-urls", &url(number + 3)]);
        command.args(["--listen-peer-urls", &url(number), "--initial-advertise-peer-urls", &url(number)]);
        command.args(["--initial-cluster", &listed.join(",")]).args(flags);
        Background::run(&mut command, &self.directory.path().join(format!("m{number}.log")))
    }

    fn takes_writes(&self, number: usize, key: &str) {
        let port = self.ports[number + 3];
        eventually("the cluster takes writes", || etcdctl(port, &["put", key, "1"]).code == 0);
    }
}

#[test]
fn the_last_member_forms_a_cluster_of_its_own_and_takes_in_others() {
    for maker in MAKERS {
        let cluster = Cluster { maker, ports: free(6), directory: tempfile::tempdir().unwrap() };
        let mut members: Vec<_> = (0..3).map(|number| cluster.start(number, &[])).collect();
        cluster.takes_writes(0, "before");
        // What a member does not know to be committed, etcd gives up: with this the one before is known to be.
        cluster.takes_writes(0, "between");
        let port = cluster.ports[3];
        eventually("all members are known", || etcdctl(port, &["member", "list"]).out.matches(", started, ").count() == 3);
        members.clear();
        let alone = cluster.start(0, &["--force-new-cluster"]);
        cluster.takes_writes(0, "after");
        within(Duration::from_secs(30), "it is alone and has said its name", || {
            let list = etcdctl(port, &["member", "list"]).ok();
            if list.lines().count() == 1 && list.contains(", started, m0, ") { Ok(()) } else { Err(format!("{maker:?} {list}")) }
        });
        assert_eq!(etcdctl(port, &["get", "before"]).ok(), "before\n1\n", "{maker:?}");
        drop(alone);
        let _again = cluster.start(0, &[]);
        cluster.takes_writes(0, "again");
        let peer = format!("--peer-urls=http://127.0.0.1:{}", cluster.ports[1]);
        eventually("a new member is taken in", || etcdctl(port, &["member", "add", "m9", &peer]).code == 0);
    }
}
