//! A cluster started by `quarterdeck up`, stopped when dropped.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::admin::Admin;
use crate::background::Background;
use crate::command::{alive, binary, run};
use crate::server::{Maker, Server};
use crate::wait::within;

/// Until the cluster is up; a loaded machine with unoptimised builds needs long.
const START: Duration = Duration::from_secs(120);

/// Until it has ended: each part may take ten seconds.
const STOP: Duration = Duration::from_secs(80);

/// A running cluster of processes.
pub struct Cluster {
    directory: TempDir,
    up: Child,
    admin: Admin,
    /// The store, where it is not the cluster's own.
    etcd: Option<Server>,
}

impl Deref for Cluster {
    type Target = Admin;

    fn deref(&self) -> &Admin {
        &self.admin
    }
}

impl Cluster {
    /// `quarterdeck up` with these arguments on a fresh data directory; returns once it is up. Its store is its own, or with
    /// `TESTS_STORE=etcd` a real etcd: that shows whether a suite that is not about the store tells a difference.
    pub fn up(args: &[&str]) -> Self {
        let etcd = std::env::var("TESTS_STORE").is_ok_and(|store| store == "etcd");
        Self::up_on(if etcd { Maker::Etcd } else { Maker::Ours }, args)
    }

    /// The same on the store of this maker.
    pub fn up_on(maker: Maker, args: &[&str]) -> Self {
        let etcd = (maker == Maker::Etcd).then(|| Server::start(maker, &[]));
        let other: Vec<_> = etcd.iter().flat_map(|etcd| ["--etcd-servers", etcd.endpoint()]).collect();
        let args = &[args, &other].concat()[..];
        let directory = tempfile::Builder::new().prefix("quarterdeck-").tempdir().unwrap();
        let up = start(directory.path(), args);
        let admin = Admin::new(directory.path(), BTreeMap::new());
        let mut cluster = Self { directory, up, admin, etcd };
        cluster.is_up();
        cluster
    }

    /// Kills `quarterdeck up` itself, lets its parts end, and starts it again on the same data directory; returns once it is up.
    pub fn kill9_and_up(&mut self, args: &[&str]) {
        let parts: Vec<_> = self.instances().iter().filter_map(|process| i32::try_from(process["pid"].as_i64()?).ok()).collect();
        self.up.kill().unwrap();
        self.up.wait().unwrap();
        within(STOP, "the parts end", || {
            let left: Vec<_> = parts.iter().filter(|pid| alive(**pid)).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        self.up = start(self.directory.path(), args);
        self.is_up();
    }

    fn is_up(&mut self) {
        within(START, "the cluster is up", || {
            let said = self.said();
            if let Some(status) = self.up.try_wait().unwrap() {
                panic!("quarterdeck up ended ({status}):\n{said}");
            }
            if said.contains("The cluster is up") { Ok(()) } else { Err(said) }
        });
        self.admin = Admin::new(self.directory.path(), self.members());
    }

    /// What `quarterdeck up` printed so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("up.log")).unwrap()
    }

    /// The log of one of its processes.
    pub fn log(&self, instance: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(format!("logs/{instance}.log"))).unwrap_or_default()
    }

    /// Waits until every node is Ready.
    pub fn wait_for_nodes(&self) {
        let wait = ["status", "--wait", "120", "--data-dir"];
        run(Command::new(binary("quarterdeck")).args(wait).arg(self.directory())).ok();
    }

    /// What `quarterdeck status` knows of a process: its ID.
    pub fn pid(&self, instance: &str) -> i32 {
        i32::try_from(self.instance(instance)["pid"].as_i64().unwrap()).unwrap()
    }

    /// Where a process listens, as `quarterdeck status` says it.
    pub fn listens(&self, instance: &str) -> String {
        listens(&self.instance(instance))
    }

    fn instance(&self, name: &str) -> Value {
        let instances = self.instances();
        let found = instances.iter().find(|process| process["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {instances:?}")).clone()
    }

    fn instances(&self) -> Vec<Value> {
        let state: Value = serde_json::from_slice(&std::fs::read(self.directory().join("cluster.json")).unwrap()).unwrap();
        state["instances"].as_array().unwrap().clone()
    }

    fn members(&self) -> BTreeMap<String, String> {
        let named = self.instances().into_iter().map(|process| (process["name"].as_str().unwrap().to_owned(), listens(&process)));
        let other = self.etcd.iter().map(|etcd| ("store-1".to_owned(), etcd.endpoint().to_owned()));
        named.filter(|(name, _)| name.starts_with("store-")).chain(other).collect()
    }

    /// Sends a signal to one of its processes.
    pub fn signal(&self, instance: &str, signal: Signal) {
        kill(Pid::from_raw(self.pid(instance)), signal).unwrap();
    }

    /// A controller manager with flags of its own, for a cluster that was started without one.
    pub fn controller_manager(&self, flags: &[&str]) -> Background {
        let file = |name: &str| self.directory().join(name).display().to_string();
        let usual = [
            format!("--kubeconfig={}", file("controller-manager.conf")),
            format!("--root-ca-file={}", file("pki/ca.crt")),
            "--use-service-account-credentials=true".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let args: Vec<_> = usual.into_iter().chain(flags.iter().map(ToString::to_string)).collect();
        Background::start("controller-manager", &args, &self.directory().join("logs/controller-manager.log"))
    }

    /// The `quarterdeck up` process.
    pub fn up_pid(&self) -> i32 {
        i32::try_from(self.up.id()).unwrap()
    }

    /// Lets parts go on that a failed test left stopped: a kubelet that cannot end by itself leaves its containers behind.
    fn resume(&self) {
        let state = std::fs::read(self.directory().join("cluster.json")).unwrap_or_default();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        let pids = state["instances"].as_array().into_iter().flatten().filter_map(|process| process["pid"].as_i64());
        for pid in pids.filter_map(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// Ctrl-C, and how it ended.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        self.resume();
        let _ = kill(Pid::from_raw(self.up_pid()), Signal::SIGINT);
        let began = Instant::now();
        loop {
            if let Some(status) = self.up.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > STOP {
                let _ = self.up.kill();
                eprintln!("quarterdeck up did not end within {STOP:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start(directory: &Path, args: &[&str]) -> Child {
    let log = std::fs::File::create(directory.join("up.log")).unwrap();
    let mut command = Command::new(binary("quarterdeck"));
    command.arg("up").args(args).arg("--data-dir").arg(directory);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn listens(process: &Value) -> String {
    process["listens"].as_str().unwrap().split(' ').next().unwrap().to_owned()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("{}", self.said());
            for entry in std::fs::read_dir(self.directory.path().join("logs")).into_iter().flatten().flatten() {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                eprintln!("== {}\n{}", entry.path().display(), lines[lines.len().saturating_sub(15)..].join("\n"));
            }
        }
    }
}
