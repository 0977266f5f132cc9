//! A CRI runtime for machines without root or containerd: a container is a plain process of this machine.
//!
//! What there is: environment, working directory, user (when root), process group, log files, exec, attach, port-forward,
//! terminals, exit codes, survival of a kubelet restart. What there is not: images (the command must be given), namespaces, cgroups, mounts. A container's
//! volumes appear as links below its working directory, which `QUARTERDECK_ROOT` names; each sandbox has a loopback address
//! of its own, so that replicas that bind to `status.podIP` do not clash.

mod command;
mod cri;
mod exec;
mod frames;
mod instructions;
mod pid;
pub(crate) mod shim;
mod store;
mod streams;

use std::{collections::BTreeMap, ffi::OsString, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::not_found;
use crate::cri::{CriResult, v1};
use store::{Container, Sandbox, Store};

/// How often a stop looks whether the processes are gone.
const POLL: Duration = Duration::from_millis(20);
/// How often a command beside a container looks whether that still runs.
const WATCH: Duration = Duration::from_millis(500);

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
}

/// The runtime; its state is on disk and in the processes themselves.
pub(crate) struct Process {
    store: Store,
    state: Mutex<State>,
    shim: Vec<OsString>,
    clock: fn() -> Timestamp,
    door: streams::Door,
}

impl Process {
    /// Opens the runtime whose files are under `root`, taking over what still runs from before; `shim` is the command that
    /// makes a shim, `idle` the silence that ends a stream; none never does.
    pub(crate) fn open(root: &Path, shim: Vec<OsString>, clock: fn() -> Timestamp, idle: Option<Duration>) -> std::io::Result<Arc<Self>> {
        let store = Store::open(root)?;
        let (sandboxes, containers) = store.load()?;
        let state = Mutex::new(State { sandboxes, containers });
        Ok(Arc::new_cyclic(|this| Self { store, state, shim, clock, door: streams::Door::new(this.clone(), idle) }))
    }

    fn now(&self) -> i64 {
        i64::try_from((self.clock)().as_nanosecond()).unwrap_or(i64::MAX)
    }

    /// Brings the states of containers up to date with their processes.
    fn refresh(&self, state: &mut State) {
        let now = self.now();
        for (id, container) in &mut state.containers {
            if container.is_running() {
                self.store.refresh(id, container, now);
            }
        }
    }

    fn container(&self, id: &str) -> CriResult<Container> {
        let mut state = self.state.lock();
        let container = state.containers.get_mut(id).ok_or_else(|| not_found("container", id))?;
        if container.is_running() {
            self.store.refresh(id, container, self.now());
        }
        Ok(container.clone())
    }

    /// A container whose process runs.
    fn running(&self, id: &str) -> CriResult<Container> {
        let container = self.container(id)?;
        if container.is_running() {
            return Ok(container);
        }
        let state = v1::ContainerState::try_from(container.status.state).unwrap_or(v1::ContainerState::ContainerUnknown);
        Err(tonic::Status::failed_precondition(format!("container is in {} state", state.as_str_name())))
    }

    /// SIGTERM, SIGKILL after `grace`, and the wait until the exit is recorded.
    async fn stop(&self, id: &str, grace: Duration) -> CriResult<()> {
        let Ok(container) = self.container(id) else { return Ok(()) };
        let Some(process) = container.process.filter(|_| container.is_running()) else { return Ok(()) };
        if !grace.is_zero() {
            process.signal_group(nix::sys::signal::Signal::SIGTERM);
            if self.exited_within(id, grace).await {
                return Ok(());
            }
        }
        process.signal_group(nix::sys::signal::Signal::SIGKILL);
        if self.exited_within(id, Duration::from_secs(10)).await {
            return Ok(());
        }
        Err(tonic::Status::deadline_exceeded(format!("container {id:?} did not end after SIGKILL")))
    }

    async fn exited_within(&self, id: &str, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if !self.container(id).is_ok_and(|c| c.is_running()) {
                return true;
            }
            if tokio::time::Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Comes back when the container's process has ended.
    async fn ended(&self, id: &str) {
        while self.running(id).is_ok() {
            tokio::time::sleep(WATCH).await;
        }
    }

    fn save_sandbox(&self, id: &str, sandbox: &Sandbox) -> CriResult<()> {
        self.store.save_sandbox(id, sandbox).map_err(|e| tonic::Status::internal(format!("write sandbox {id:?}: {e}")))
    }

    fn save_container(&self, id: &str, container: &Container) -> CriResult<()> {
        self.store.save_container(id, container).map_err(|e| tonic::Status::internal(format!("write container {id:?}: {e}")))
    }

    /// A loopback address no other sandbox here has. They lie in 127.64.0.0/10, away from what resolvers and tests use.
    fn address(state: &State) -> String {
        loop {
            let host: u32 = rand::random::<u32>() & 0x003f_ffff;
            let address = Ipv4Addr::from(0x7f40_0000 | host | 1).to_string();
            let taken = state.sandboxes.values().any(|s| s.status.network.as_ref().is_some_and(|n| n.ip == address));
            if !taken {
                return address;
            }
        }
    }

    fn ids_in(&self, sandbox: &str) -> Vec<String> {
        let state = self.state.lock();
        state.containers.iter().filter(|(_, c)| c.sandbox_id == sandbox).map(|(id, _)| id.clone()).collect()
    }
}

fn new_id() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

#[cfg(test)]
pub(crate) mod tests;
