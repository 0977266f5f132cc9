//! A cluster started by `quarterdeck up`, stopped when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Output, binary, run, run_with_input};
use crate::wait::within;

/// Until the cluster is up; a loaded machine with unoptimised builds needs long.
const START: Duration = Duration::from_secs(120);

/// Until it has ended: each part may take ten seconds.
const STOP: Duration = Duration::from_secs(80);

/// A running cluster.
pub struct Cluster {
    directory: TempDir,
    up: Child,
}

impl Cluster {
    /// `quarterdeck up` with these arguments on a fresh data directory; returns once it is up.
    pub fn up(args: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("quarterdeck-").tempdir().unwrap();
        let log = std::fs::File::create(directory.path().join("up.log")).unwrap();
        let up = Command::new(binary("quarterdeck"))
            .arg("up")
            .args(args)
            .arg("--data-dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut cluster = Self { directory, up };
        within(START, "the cluster is up", || {
            let said = cluster.said();
            if let Some(status) = cluster.up.try_wait().unwrap() {
                panic!("quarterdeck up ended ({status}):\n{said}");
            }
            if said.contains("The cluster is up") { Ok(()) } else { Err(said) }
        });
        cluster
    }

    /// What `quarterdeck up` printed so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("up.log")).unwrap()
    }

    /// Its data directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("admin.conf")
    }

    /// The log of one of its processes.
    pub fn log(&self, instance: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(format!("logs/{instance}.log"))).unwrap_or_default()
    }

    /// kubectl as its admin.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        run(self.command(args))
    }

    /// kubectl as its admin, with text on standard input.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Output {
        run_with_input(self.command(args), input)
    }

    fn command(&self, args: &[&str]) -> &mut Command {
        // A cache of its own: clusters of different tests share addresses over time.
        Box::leak(Box::new(Command::new("kubectl")))
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.directory.path().join("kubectl-cache"))
            .args(args)
    }

    /// An object as JSON, if it is there.
    pub fn get(&self, args: &[&str]) -> Option<Value> {
        let output = self.kubectl(&[&["get", "-o", "json"], args].concat());
        if output.code == 0 { Some(serde_json::from_str(&output.out).unwrap()) } else { None }
    }

    /// Applies a manifest.
    pub fn apply(&self, manifest: &str) -> String {
        self.kubectl_with_input(&["apply", "-f", "-"], manifest).ok()
    }

    /// Waits until every node is Ready.
    pub fn wait_for_nodes(&self) {
        let wait = ["status", "--wait", "120", "--data-dir"];
        run(Command::new(binary("quarterdeck")).args(wait).arg(self.directory())).ok();
    }

    /// What `quarterdeck status` knows of a process: its ID.
    pub fn pid(&self, instance: &str) -> i32 {
        let state: Value = serde_json::from_slice(&std::fs::read(self.directory().join("cluster.json")).unwrap()).unwrap();
        let instances = state["instances"].as_array().unwrap();
        let found = instances.iter().find(|process| process["name"] == instance).unwrap_or_else(|| panic!("no {instance} in {state}"));
        i32::try_from(found["pid"].as_i64().unwrap()).unwrap()
    }

    /// Where a process listens, as `quarterdeck status` says it.
    pub fn listens(&self, instance: &str) -> String {
        let state: Value = serde_json::from_slice(&std::fs::read(self.directory().join("cluster.json")).unwrap()).unwrap();
        let instances = state["instances"].as_array().unwrap();
        let found = instances.iter().find(|process| process["name"] == instance).unwrap_or_else(|| panic!("no {instance} in {state}"));
        found["listens"].as_str().unwrap().split(' ').next().unwrap().to_owned()
    }

    /// Sends a signal to one of its processes.
    pub fn signal(&self, instance: &str, signal: Signal) {
        kill(Pid::from_raw(self.pid(instance)), signal).unwrap();
    }

    /// The `quarterdeck up` process.
    pub fn up_pid(&self) -> i32 {
        i32::try_from(self.up.id()).unwrap()
    }

    /// Ctrl-C, and how it ended.
    pub fn stop(&mut self) -> std::process::ExitStatus {
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

    /// etcdctl as the operator, against these members.
    pub fn etcdctl(&self, members: &[&str], args: &[&str]) -> Output {
        let endpoints: Vec<_> = members.iter().map(|member| self.listens(member)).collect();
        let pki = |name: &str| self.directory().join("pki/etcd").join(name);
        run(Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", endpoints.join(",")))
            .arg(format!("--cacert={}", pki("ca.crt").display()))
            .arg(format!("--cert={}", pki("healthcheck-client.crt").display()))
            .arg(format!("--key={}", pki("healthcheck-client.key").display()))
            .args(args))
    }
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
