//! Starts processes, notices when one dies, starts it again if told so, and stops them all in order.

use std::ffi::OsString;
use std::fs::File;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use component::shutdown::PARENT_ENV;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::layout::Layout;
use crate::parts::Launch;
use crate::state::Instance;

/// How long a process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// Lines of a dead process's log that are shown.
const TAIL: usize = 8;

/// One supervised process.
struct Process {
    launch: Launch,
    child: Option<Child>,
    started: Instant,
    restarts: u32,
}

/// A process that ended by itself.
pub(crate) struct Death {
    pub(crate) instance: String,
    pub(crate) status: ExitStatus,
}

/// The processes of a cluster, in starting order.
pub(crate) struct Supervisor {
    layout: Layout,
    processes: Vec<Process>,
}

impl Supervisor {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, processes: Vec::new() }
    }

    /// Starts one more process.
    pub(crate) fn start(&mut self, launch: Launch) -> anyhow::Result<()> {
        let child = spawn(&self.layout, &launch)?;
        self.processes.push(Process { launch, child: Some(child), started: Instant::now(), restarts: 0 });
        Ok(())
    }

    /// What runs, for the state file.
    pub(crate) fn instances(&self) -> Vec<Instance> {
        let describe = |process: &Process| Instance {
            name: process.launch.instance.clone(),
            pid: process.child.as_ref().and_then(Child::id).unwrap_or(0),
            listens: process.launch.listens.clone(),
            restarts: process.restarts,
        };
        self.processes.iter().map(describe).collect()
    }

    /// Waits until any process ends by itself; for ever when none runs.
    pub(crate) async fn death(&mut self) -> Death {
        let mut running: FuturesUnordered<_> = self
            .processes
            .iter_mut()
            .filter_map(|process| process.child.as_mut().map(|child| (&process.launch.instance, child)))
            .map(|(instance, child)| async move { (instance.clone(), child.wait().await) })
            .collect();
        while let Some((instance, status)) = running.next().await {
            if let Ok(status) = status {
                drop(running);
                self.forget(&instance);
                return Death { instance, status };
            }
        }
        std::future::pending().await
    }

    fn forget(&mut self, instance: &str) {
        for process in self.processes.iter_mut().filter(|process| process.launch.instance == instance) {
            process.child = None;
        }
    }

    /// How long to wait before the named process is started again: longer for one that dies quickly.
    pub(crate) fn restart_delay(&self, instance: &str) -> Duration {
        match self.processes.iter().find(|process| process.launch.instance == instance) {
            Some(process) if process.started.elapsed() < GRACE => Duration::from_secs(1 << process.restarts.min(5)),
            _ => Duration::from_millis(100),
        }
    }

    /// Starts a dead process again.
    pub(crate) fn restart(&mut self, instance: &str) -> anyhow::Result<()> {
        for process in self.processes.iter_mut().filter(|process| process.launch.instance == instance) {
            process.child = Some(spawn(&self.layout, &process.launch)?);
            process.started = Instant::now();
            process.restarts += 1;
        }
        Ok(())
    }

    /// The end of a process's log.
    pub(crate) fn tail(&self, instance: &str) -> String {
        let text = std::fs::read(self.layout.log(instance)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// The ends of the logs of all processes of a name, numbered or not.
    pub(crate) fn tail_of(&self, name: &str) -> String {
        let own = self.processes.iter().map(|process| process.launch.instance.as_str()).filter(|instance| instance.starts_with(name));
        own.map(|instance| self.tail(instance)).collect::<Vec<_>>().join("\n")
    }

    /// Stops everything, the last started first.
    pub(crate) async fn stop(mut self) {
        while let Some(layer) = self.last_layer() {
            join_all(layer.into_iter().map(end)).await;
        }
    }

    /// The processes of the part that was started last: those stop side by side.
    fn last_layer(&mut self) -> Option<Vec<Child>> {
        let program = self.processes.last()?.launch.program.clone();
        let mut layer = Vec::new();
        while let Some(process) = self.processes.pop_if(|process| process.launch.program == program) {
            layer.extend(process.child);
        }
        Some(layer)
    }
}

async fn end(mut child: Child) {
    signal(&child, Signal::SIGTERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        signal(&child, Signal::SIGKILL);
        let _ = child.wait().await;
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended in between.
        let _ = killpg(Pid::from_raw(pid), signal);
    }
}

/// The command of a process that inherits these variables. Not those that the store would take for flags of its own: whoever set
/// them meant another etcd, and it does not start where a flag is given both ways.
fn command(launch: &Launch, inherited: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new(&launch.program);
    for variable in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"ETCD_")) {
        command.env_remove(variable);
    }
    command.args(&launch.args).env(PARENT_ENV, std::process::id().to_string());
    command
}

fn spawn(layout: &Layout, launch: &Launch) -> anyhow::Result<Child> {
    let path = layout.log(&launch.instance);
    let log = File::options().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("open {}", path.display()))?;
    let errors = log.try_clone().with_context(|| format!("open {}", path.display()))?;
    command(launch, std::env::vars_os().map(|(name, _)| name))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Ctrl-C goes to the foreground group: the parts are to end in order, not all at once.
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {}", launch.program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_program_does_not_inherit_flags_of_another_etcd() {
        let launch = Launch { instance: "store-0".into(), program: "store".into(), args: vec!["--name=a".into()], listens: String::new() };
        let inherited = ["ETCD_NAME", "ETCD_UNKNOWN", "ETCDCTL_API", "PATH"].map(OsString::from);
        let command = command(&launch, inherited.into_iter());
        let changed: BTreeMap<_, _> = command.as_std().get_envs().map(|(name, value)| (name.to_str().unwrap(), value.is_some())).collect();
        assert_eq!(changed, BTreeMap::from([("ETCD_NAME", false), ("ETCD_UNKNOWN", false), (PARENT_ENV, true)]));
    }
}
