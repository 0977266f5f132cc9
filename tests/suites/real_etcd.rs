//! A cluster whose store is exchanged for a real etcd, and back.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;
use std::time::Duration;

use tests::{Cluster, Maker, Part, binary, chain, golden, run, within};

/// Until a part has begun to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose store and API server this test started last.
struct Moved {
    cluster: Cluster,
    store: Part,
    apiserver: Part,
    moves: usize,
}

impl Moved {
    fn new(cluster: Cluster) -> Self {
        let (store, apiserver) = (Part::of(&cluster, "store-1"), Part::of(&cluster, "apiserver"));
        Self { cluster, store, apiserver, moves: 0 }
    }

    /// Takes a snapshot while nobody writes, and serves it by another maker's program, started with the very same flags, but for one.
    fn to(&mut self, maker: Maker) {
        self.moves += 1;
        let place = |name: &str| self.cluster.directory().join(format!("{name}-{}", self.moves));
        let (snapshot, data) = (place("snapshot"), place("data"));
        let (store_log, apiserver_log) = (place("store.log"), place("apiserver.log"));
        self.apiserver.stop();
        self.cluster.etcdctl(&["store-1"], &["snapshot", "save", snapshot.to_str().unwrap()]).ok();
        self.store.stop();
        let mut restore = Command::new(maker.tool());
        restore.args(["snapshot", "restore"]).arg(&snapshot).arg("--data-dir").arg(&data);
        for flag in ["name", "initial-cluster", "initial-advertise-peer-urls"] {
            restore.arg(format!("--{flag}={}", self.store.flag(flag)));
        }
        run(&mut restore).ok();
        self.store.set_flag("data-dir", data.to_str().unwrap());
        // Of etcd 3.6; the 3.5 at hand does not know it.
        self.store.unset_flag("log-format");
        self.store.start(maker.server(), &store_log);
        self.apiserver.start(binary("apiserver"), &apiserver_log);
        within(PATIENCE, "the API server is ready", || {
            let ready = self.cluster.kubectl(&["get", "--raw", "/readyz"]);
            if ready.code == 0 { Ok(()) } else { Err(format!("{}\n{}", ready.err, fs::read_to_string(&apiserver_log).unwrap())) }
        });
        let version = self.cluster.etcdctl(&["store-1"], &["endpoint", "status", "-w", "fields"]).ok();
        assert_eq!(version.contains("\"Version\" : \"3.5."), maker == Maker::Etcd, "{version}");
    }
}

#[test]
fn a_cluster_moves_to_a_real_etcd_and_back_and_works_on_both() {
    let cluster = Cluster::up(&["--runtime", "hollow", "--nodes", "2"]);
    cluster.wait_for_nodes();
    cluster.kubectl(&["create", "deployment", "stays", "--image=web:1", "--replicas=2"]).ok();
    cluster.kubectl(&["rollout", "status", "deployment/stays", "--timeout=60s"]).ok();
    let pods = |cluster: &Cluster| cluster.kubectl(&["get", "pods", "-l", "app=stays", "-o", "jsonpath={.items[*].metadata.uid}"]).ok();
    let before = pods(&cluster);
    let mut moved = Moved::new(cluster);
    for maker in [Maker::Etcd, Maker::Ours] {
        moved.to(maker);
        moved.cluster.kubectl(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"]).ok();
        assert_eq!(pods(&moved.cluster), before, "no pod was replaced");
        chain::a_deployment_travels_the_whole_chain(&moved.cluster);
        moved.cluster.kubectl(&["delete", "service", "web"]).ok();
    }
}

#[test]
fn the_api_server_answers_as_the_recorded_one_on_a_real_etcd() {
    let mut moved = Moved::new(Cluster::up(&["--components", "store,apiserver"]));
    moved.to(Maker::Etcd);
    golden::answers_as_recorded(&moved.cluster);
}
