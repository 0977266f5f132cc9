//! A cluster of containers, as `docker-compose.yml` describes it; gone with all it made when dropped.

mod engine;
mod network;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::admin::Admin;
use crate::command::{Output, run};
use crate::ports;
use crate::wait::within;
use network::Cut;

/// Until the nodes of a new cluster are Ready, while others start beside it on two cores.
const START: Duration = Duration::from_secs(180);

/// What every project of a test is called; the test's process follows.
const PREFIX: &str = "quarterdeck-test-";

/// The store's members.
const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];

/// Its nodes: service and Node have one name.
const NODES: [&str; 2] = ["node-1", "node-2"];

/// A running cluster of containers.
pub struct Compose {
    project: String,
    /// Goes with the cluster.
    _directory: TempDir,
    environment: Vec<(String, String)>,
    admin: Admin,
    cuts: Mutex<Vec<Cut>>,
}

impl Deref for Compose {
    type Target = Admin;

    fn deref(&self) -> &Admin {
        &self.admin
    }
}

impl Compose {
    /// Whether clusters of containers can be started, paused and cut here; says on standard error why not.
    pub fn possible() -> bool {
        let obstacle = engine::obstacle();
        if let Some(obstacle) = &obstacle {
            eprintln!("skipped: clusters of containers need {obstacle}");
        }
        obstacle.is_none()
    }

    /// `docker-compose up` under a project, ports and a directory of its own; returns once both nodes are Ready.
    pub fn up() -> Self {
        engine::prepare();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let project = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::Builder::new().prefix("quarterdeck-").tempdir().unwrap();
        let [api, one, two, three]: [u16; 4] = ports::free(4).try_into().expect("four free ports");
        let environment = [
            ("QUARTERDECK_DATA", directory.path().display().to_string()),
            ("QUARTERDECK_PORT", api.to_string()),
            ("QUARTERDECK_STORE_1_PORT", one.to_string()),
            ("QUARTERDECK_STORE_2_PORT", two.to_string()),
            ("QUARTERDECK_STORE_3_PORT", three.to_string()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        let urls = [one, two, three].map(|port| format!("https://127.0.0.1:{port}"));
        let members: BTreeMap<_, _> = MEMBERS.map(str::to_owned).into_iter().zip(urls).collect();
        let admin = Admin::new(directory.path(), members);
        let cluster = Self { project, _directory: directory, environment, admin, cuts: Mutex::default() };
        cluster.compose(&["up", "-d"]).ok();
        cluster.wait_for_nodes();
        cluster
    }

    /// Waits until both nodes are Ready and take pods: of the taint that a node starts with it is freed only after it is Ready.
    pub fn wait_for_nodes(&self) {
        within(START, "both nodes take pods", || {
            let nodes = self.list(&["nodes"])?;
            let ready = |name: &&str| nodes.iter().any(|node| node["metadata"]["name"] == **name && takes_pods(node));
            let ready: Vec<_> = NODES.into_iter().filter(|name| ready(name)).collect();
            if ready.len() == NODES.len() { Ok(()) } else { Err(format!("only {ready:?} take pods")) }
        });
    }

    /// docker-compose on this project: `stop`, `start`, `kill`, `down`, `up -d`, …
    pub fn compose(&self, args: &[&str]) -> Output {
        let mut command = engine::compose();
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.current_dir(engine::root()).envs(environment).args(["-p", &self.project]).args(args);
        run(&mut command)
    }

    /// Runs a program in a service's container.
    pub fn exec(&self, service: &str, args: &[&str]) -> Output {
        run(Command::new("docker").args(["exec", &self.container(service)]).args(args))
    }

    /// Kills a part with SIGKILL: Docker, or a node's supervisor, starts it again, as after any crash.
    pub fn kill9(&self, part: &str) {
        self.signal(part, Signal::SIGKILL);
    }

    /// Stops a part (SIGSTOP) until it is resumed.
    pub fn pause(&self, part: &str) {
        self.signal(part, Signal::SIGSTOP);
    }

    /// Lets a paused part go on.
    pub fn resume(&self, part: &str) {
        self.signal(part, Signal::SIGCONT);
    }

    /// Sends a signal to a part from outside its PID namespace, where nothing is immune.
    pub fn signal(&self, part: &str, signal: Signal) {
        let pid = self.pid(part).unwrap_or_else(|| panic!("{part} does not run"));
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// The process of a part, if it runs: of a service (`apiserver`), its first one; of a program in a node (`node-1/kubelet`),
    /// that one.
    pub fn pid(&self, part: &str) -> Option<i32> {
        let (service, program) = part.split_once('/').map_or((part, None), |(service, program)| (service, Some(program)));
        let first: i32 = engine::inspect(&self.container(service), "{{.State.Pid}}")?.parse().ok()?;
        match program {
            _ if first == 0 => None,
            None => Some(first),
            Some(program) => engine::named(first, program),
        }
    }

    /// Cuts the way from one service to another, not the way back. Published ports are not touched.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        let cut = Cut::new(&self.address(from), to, self.pid(to).unwrap_or_else(|| panic!("{to} does not run")));
        self.cuts.lock().unwrap().push(cut);
    }

    /// Cuts both ways between two services.
    pub fn cut(&self, one: &str, other: &str) {
        self.cut_one_way(one, other);
        self.cut_one_way(other, one);
    }

    /// Undoes every cut.
    pub fn heal(&self) {
        self.cuts.lock().unwrap().clear();
    }

    /// A service's address in the cluster's network.
    pub fn address(&self, service: &str) -> String {
        let template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        engine::inspect(&self.container(service), template).unwrap_or_else(|| panic!("{service} has no container"))
    }

    /// The container of a service: compose 1 joins the parts of a name by `_`, compose 2 by `-`.
    fn container(&self, service: &str) -> String {
        let filters = [format!("label=com.docker.compose.project={}", self.project), format!("label=com.docker.compose.service={service}")];
        let args = ["ps", "-aq", "--no-trunc", "--filter", &filters[0], "--filter", &filters[1]];
        let found = run(Command::new("docker").args(args)).ok();
        found.lines().next().unwrap_or_default().to_owned()
    }
}

/// Whether a Node says that it is Ready.
fn takes_pods(node: &serde_json::Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    !tainted && conditions.is_some_and(|list| list.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True"))
}

impl Drop for Compose {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let objects = self.kubectl(&["get", "nodes,deployments,replicasets,pods,events", "-A", "-o", "wide", "--request-timeout=5s"]);
            let logs = self.compose(&["logs", "--no-color", "--tail=100"]);
            eprintln!("== {}\n{}{}\n{}{}", self.project, objects.out, objects.err, logs.out, logs.err);
        }
        engine::remove(&self.project);
    }
}
