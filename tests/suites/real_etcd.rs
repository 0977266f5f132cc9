//! A cluster whose store is exchanged for a real etcd, and back.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Background, Cluster, Maker, binary, chain, golden, run, within};

/// Until a part has ended or begun to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose store and API server this test started last.
struct Moved {
    cluster: Cluster,
    store: Part,
    apiserver: Part,
    moves: usize,
}

/// A process and how it was started.
struct Part {
    pid: i32,
    args: Vec<String>,
    /// None while `quarterdeck up` has it.
    _process: Option<Background>,
}

impl Part {
    fn of(cluster: &Cluster, instance: &str) -> Self {
        let pid = cluster.pid(instance);
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).skip(1);
        Self { pid, args: words.map(|word| String::from_utf8(word.to_vec()).unwrap()).collect(), _process: None }
    }

    fn stop(&self) {
        kill(Pid::from_raw(self.pid), Signal::SIGTERM).unwrap();
        within(PATIENCE, "the part ends", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
            let runs = stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
            if runs { Err(format!("{} runs", self.pid)) } else { Ok(()) }
        });
    }

    fn start(&mut self, program: PathBuf, log: PathBuf) {
        let process = Background::run(Command::new(program).args(&self.args), &log);
        self.pid = process.pid();
        self._process = Some(process);
    }

    fn flag(&self, name: &str) -> &str {
        self.args.iter().find_map(|arg| arg.strip_prefix(&format!("--{name}="))).unwrap()
    }

    fn set_flag(&mut self, name: &str, value: &str) {
        let prefix = format!("--{name}=");
        self.args.iter_mut().filter(|arg| arg.starts_with(&prefix)).for_each(|arg| *arg = format!("{prefix}{value}"));
    }
}

impl Moved {
    fn new(cluster: Cluster) -> Self {
        let (store, apiserver) = (Part::of(&cluster, "store-1"), Part::of(&cluster, "apiserver"));
        Self { cluster, store, apiserver, moves: 0 }
    }

    /// Takes a snapshot while nobody writes, and serves it by another maker's program, started with the very same flags.
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
        self.store.start(maker.server(), store_log);
        self.apiserver.start(binary("apiserver"), apiserver_log.clone());
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
