//! The node image's supervisor as PID 1 of a namespace, over stand-ins for its programs. Needs root; says so where it is not.
#![allow(clippy::unwrap_used)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{eventually, run, within};

const STAND_INS: &[(&str, &str)] = &[
    ("prepare", "exit 0"),
    ("ctr", "exit 0"),
    ("hostname", "echo node-1"),
    ("ip", "echo '2: eth0    inet 172.18.0.2/16 brd 172.18.255.255 scope global eth0'"),
    // As the real one does, it leaves its shim to PID 1.
    ("containerd", "(containerd-shim &)\nexec -a containerd sleep infinity"),
    ("kubelet", "echo \"$@\" >>kubelet.args\nexec -a kubelet sleep infinity"),
    ("node-routes", "exec -a node-routes sleep infinity"),
    // A container that takes a moment to end.
    ("containerd-shim", "bash -c 'trap \"sleep 0.3; touch ended; exit\" TERM; touch began; while :; do sleep 0.05; done'"),
];

struct Supervised {
    unshare: Child,
    directory: tempfile::TempDir,
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// With everything running; `None` where that is not possible.
fn start() -> Option<Supervised> {
    let supervised = start_with(&[])?;
    eventually("everything runs", || {
        ["containerd", "kubelet", "node-routes"].iter().all(|program| supervised.pid(program).is_some())
            && supervised.directory.path().join("began").exists()
    });
    Some(supervised)
}

/// With other stand-ins for some programs; `None`, with a word about it, where root may not make namespaces.
fn start_with(others: &[(&str, &str)]) -> Option<Supervised> {
    let allowed = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output().is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("skipped: PID 1 of a namespace needs root that may make one");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, script) in STAND_INS.iter().chain(others) {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let supervisor = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/images/node/supervisor");
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let unshare = Command::new("unshare")
        .args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child"])
        .args(["sh", "-c", "mount -t tmpfs run /run && exec \"$0\" --node-labels=a=b"])
        .arg(supervisor)
        .current_dir(directory.path())
        .env("PATH", path)
        .spawn()
        .unwrap();
    Some(Supervised { unshare, directory })
}

fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

impl Supervised {
    /// PID 1, as it is known outside.
    fn supervisor(&self) -> i32 {
        children(i32::try_from(self.unshare.id()).unwrap()).first().copied().unwrap_or_default()
    }

    fn pid(&self, program: &str) -> Option<i32> {
        let first = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        children(self.supervisor())
            .into_iter()
            .find(|pid| first(pid).split(|byte| *byte == 0).any(|word| word.ends_with(program.as_bytes())))
    }
}

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

#[test]
fn a_program_that_dies_starts_again_and_the_others_go_on() {
    let Some(node) = start() else { return };
    for killed in ["kubelet", "containerd", "node-routes"] {
        let others: Vec<_> =
            ["kubelet", "containerd", "node-routes", "containerd-shim"].into_iter().filter(|name| *name != killed).collect();
        let pids = |names: &[&str]| names.iter().map(|name| node.pid(name)).collect::<Vec<_>>();
        let (victim, before) = (node.pid(killed).unwrap(), pids(&others));
        signal(victim, Signal::SIGKILL);
        eventually("another one runs", || node.pid(killed).is_some_and(|pid| pid != victim));
        if killed != "containerd" {
            assert_eq!(pids(&others), before, "after {killed} was killed");
        }
    }
}

#[test]
fn the_kubelet_is_told_name_and_address_and_gets_the_containers_arguments() {
    let Some(node) = start() else { return };
    let args = std::fs::read_to_string(node.directory.path().join("kubelet.args")).unwrap();
    for flag in ["--hostname-override=node-1", "--node-ip=172.18.0.2", "--node-labels=a=b"] {
        assert!(args.contains(flag), "{args}");
    }
}

#[test]
fn what_others_leave_behind_is_buried() {
    let Some(node) = start() else { return };
    let shim = node.pid("containerd-shim").unwrap();
    signal(shim, Signal::SIGKILL);
    // Unburied, it would stay among the children of PID 1 as a zombie.
    eventually("the orphan is gone", || !Path::new(&format!("/proc/{shim}")).exists());
}

#[test]
fn a_stop_gives_containers_time_to_end_and_leaves_nothing_within_dockers_ten_seconds() {
    let Some(mut node) = start() else { return };
    signal(node.supervisor(), Signal::SIGTERM);
    let status = within(Duration::from_secs(9), "PID 1 has ended", || node.unshare.try_wait().unwrap().ok_or_else(|| "it runs".to_owned()));
    assert!(status.success(), "{status}");
    assert!(node.directory.path().join("ended").exists(), "the container was killed before it could end");
}

#[test]
fn a_stop_during_the_preparation_is_obeyed_at_once() {
    let Some(mut node) = start_with(&[("prepare", "touch preparing\nexec sleep infinity")]) else { return };
    eventually("it prepares", || node.directory.path().join("preparing").exists());
    signal(node.supervisor(), Signal::SIGTERM);
    let status = within(Duration::from_secs(5), "PID 1 has ended", || node.unshare.try_wait().unwrap().ok_or_else(|| "it runs".to_owned()));
    assert!(status.success(), "{status}");
    assert!(!node.directory.path().join("kubelet.args").exists());
}

#[test]
fn a_container_that_ignores_the_stop_does_not_delay_it_beyond_dockers_ten_seconds() {
    let Some(mut node) = start() else { return };
    let stubborn = run(Command::new("pgrep").arg("--parent").arg(node.pid("containerd-shim").unwrap().to_string())).ok();
    signal(stubborn.trim().parse().unwrap(), Signal::SIGSTOP);
    signal(node.supervisor(), Signal::SIGTERM);
    within(Duration::from_secs(9), "PID 1 has ended", || node.unshare.try_wait().unwrap().ok_or_else(|| "it runs".to_owned()));
}
