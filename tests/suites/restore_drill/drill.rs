//! What the operator does.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Cluster, binary, run, within};

/// Stops the store's members, puts the snapshot in place of what they held, and starts them again: `quarterdeck up` does that
/// last, having noticed nothing before.
pub(crate) fn restore(cluster: &Cluster, members: &[&str], snapshot: &Path) {
    let pids: Vec<_> = members.iter().map(|member| cluster.pid(member)).collect();
    let restored: Vec<_> = pids.iter().map(|pid| restored(*pid, snapshot)).collect();
    let _paused = Paused::pause(cluster.up_pid());
    pids.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGTERM).unwrap());
    for (pid, (directory, fresh)) in pids.iter().zip(&restored) {
        within(Duration::from_secs(30), "the member has ended", || if runs(*pid) { Err(pid.to_string()) } else { Ok(()) });
        fs::rename(directory, format!("{directory}.before")).unwrap();
        fs::rename(fresh, directory).unwrap();
    }
}

/// Restores the snapshot for a member that runs, beside its data directory; that directory and the new one.
fn restored(pid: i32, snapshot: &Path) -> (String, String) {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let flags: Vec<_> = line.split(|byte| *byte == 0).map(|flag| String::from_utf8_lossy(flag).into_owned()).collect();
    let value = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(&format!("--{name}="))).unwrap();
    let directory = value("data-dir").to_owned();
    let fresh = format!("{directory}.restored");
    let mut command = Command::new(binary("store"));
    command.args(["snapshot", "restore"]).arg(snapshot).args(["--data-dir", &fresh]);
    for flag in ["name", "initial-cluster", "initial-advertise-peer-urls"] {
        command.arg(format!("--{flag}={}", value(flag)));
    }
    // The figure that Kubernetes' documentation advises.
    run(command.args(["--bump-revision", "1000000000", "--mark-compacted"])).ok();
    (directory, fresh)
}

/// Whether a process runs: one that has ended and waits for its parent to notice does not.
fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A process that stands still.
struct Paused(Pid);

impl Paused {
    fn pause(pid: i32) -> Self {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Self(Pid::from_raw(pid))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
