//! A CRI runtime for machines without root or containerd: a container is a plain process of this machine.
//!
//! What there is: environment, working directory, user (when root), process group, log files, exec, exit codes, survival of
//! a kubelet restart. What there is not: images (the command must be given), namespaces, cgroups, mounts. A container's
//! volumes appear as links below its working directory, which `QUARTERDECK_ROOT` names; each sandbox has a loopback address
//! of its own, so that replicas that bind to `status.podIP` do not clash.

mod exec;
mod pid;
pub(crate) mod shim;
mod store;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{filter, not_found};
use crate::cri::{Cri, CriResult, v1};
use store::{Container, Sandbox, Store};

/// How often a stop looks whether the processes are gone.
const POLL: Duration = Duration::from_millis(20);

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
}

impl Process {
    /// Opens the runtime whose files are under `root`, taking over what still runs from before; `shim` is the command that
    /// makes a shim.
    pub(crate) fn open(root: &Path, shim: Vec<OsString>, clock: fn() -> Timestamp) -> std::io::Result<Arc<Self>> {
        let store = Store::open(root)?;
        let (sandboxes, containers) = store.load()?;
        let state = Mutex::new(State { sandboxes, containers });
        Ok(Arc::new(Self { store, state, shim, clock }))
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

/// What is run: the spec's command and arguments. Without an image there is nothing to fall back on.
fn argv(config: &v1::ContainerConfig) -> CriResult<Vec<String>> {
    if config.command.is_empty() {
        let image = config.image.as_ref().map(|i| i.user_specified_image.as_str()).unwrap_or_default();
        return Err(tonic::Status::invalid_argument(format!(
            "the process runtime has no images: container needs a \"command\" in its spec, image {image:?} cannot supply one"
        )));
    }
    Ok(config.command.iter().chain(&config.args).cloned().collect())
}

/// Links to the container's mounts, at their container paths below `root`.
fn link_mounts(root: &Path, mounts: &[v1::Mount]) -> std::io::Result<()> {
    std::fs::create_dir_all(root)?;
    for mount in mounts {
        let link = root.join(mount.container_path.trim_start_matches('/'));
        if let Some(parent) = link.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match std::os::unix::fs::symlink(&mount.host_path, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What the shim is told: everything it needs to run the container on its own.
fn instructions(directory: &Path, config: &v1::ContainerConfig, log: PathBuf) -> CriResult<shim::Instructions> {
    let root = directory.join("root");
    link_mounts(&root, &config.mounts).map_err(|e| tonic::Status::internal(format!("link mounts below {root:?}: {e}")))?;
    let context = config.linux.as_ref().and_then(|l| l.security_context.as_ref());
    let id = |value: Option<&v1::Int64Value>| value.and_then(|v| u32::try_from(v.value).ok());
    let mut env: BTreeMap<String, String> = config.envs.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
    env.insert("QUARTERDECK_ROOT".into(), root.to_string_lossy().into_owned());
    let path = || "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    env.entry("PATH".into()).or_insert_with(path);
    Ok(shim::Instructions {
        argv: argv(config)?,
        env,
        directory: if config.working_dir.is_empty() { root } else { PathBuf::from(&config.working_dir) },
        log,
        user: id(context.and_then(|c| c.run_as_user.as_ref())),
        group: id(context.and_then(|c| c.run_as_group.as_ref())),
    })
}

#[async_trait]
impl Cri for Process {
    async fn version(&self, _: v1::VersionRequest) -> CriResult<v1::VersionResponse> {
        Ok(super::version("process"))
    }

    async fn status(&self, _: v1::StatusRequest) -> CriResult<v1::StatusResponse> {
        Ok(super::all_ready())
    }

    async fn run_pod_sandbox(&self, request: v1::RunPodSandboxRequest) -> CriResult<v1::RunPodSandboxResponse> {
        let config = request.config.unwrap_or_default();
        let (id, now) = (new_id(), self.now());
        let mut state = self.state.lock();
        let host = super::on_host_network(&config);
        let ip = if host { String::new() } else { Self::address(&state) };
        let logs = config.log_directory.clone();
        let sandbox = Sandbox { status: super::sandbox_status(&id, config, ip, host, now), log_directory: logs };
        self.save_sandbox(&id, &sandbox)?;
        state.sandboxes.insert(id.clone(), sandbox);
        Ok(v1::RunPodSandboxResponse { pod_sandbox_id: id })
    }

    async fn stop_pod_sandbox(&self, request: v1::StopPodSandboxRequest) -> CriResult<v1::StopPodSandboxResponse> {
        let id = request.pod_sandbox_id;
        for container in self.ids_in(&id) {
            self.stop(&container, Duration::ZERO).await?;
        }
        let mut state = self.state.lock();
        if let Some(sandbox) = state.sandboxes.get_mut(&id) {
            sandbox.status.state = v1::PodSandboxState::SandboxNotready as i32;
            self.save_sandbox(&id, sandbox)?;
        }
        Ok(v1::StopPodSandboxResponse {})
    }

    async fn remove_pod_sandbox(&self, request: v1::RemovePodSandboxRequest) -> CriResult<v1::RemovePodSandboxResponse> {
        let id = request.pod_sandbox_id;
        for container in self.ids_in(&id) {
            self.remove_container(v1::RemoveContainerRequest { container_id: container }).await?;
        }
        self.state.lock().sandboxes.remove(&id);
        self.store.remove_sandbox(&id).map_err(|e| tonic::Status::internal(format!("remove sandbox {id:?}: {e}")))?;
        Ok(v1::RemovePodSandboxResponse {})
    }

    async fn pod_sandbox_status(&self, request: v1::PodSandboxStatusRequest) -> CriResult<v1::PodSandboxStatusResponse> {
        let state = self.state.lock();
        let sandbox = state.sandboxes.get(&request.pod_sandbox_id).ok_or_else(|| not_found("sandbox", &request.pod_sandbox_id))?;
        Ok(v1::PodSandboxStatusResponse { status: Some(sandbox.status.clone()), ..Default::default() })
    }

    async fn list_pod_sandbox(&self, request: v1::ListPodSandboxRequest) -> CriResult<v1::ListPodSandboxResponse> {
        let state = self.state.lock();
        let items = state.sandboxes.values().map(|s| &s.status).filter(|s| filter::sandbox(&request, s));
        Ok(v1::ListPodSandboxResponse { items: items.map(filter::sandbox_item).collect() })
    }

    async fn create_container(&self, request: v1::CreateContainerRequest) -> CriResult<v1::CreateContainerResponse> {
        let config = request.config.unwrap_or_default();
        let mut state = self.state.lock();
        let sandbox = state.sandboxes.get(&request.pod_sandbox_id).ok_or_else(|| not_found("sandbox", &request.pod_sandbox_id))?;
        let id = new_id();
        let log = Path::new(&sandbox.log_directory).join(&config.log_path);
        let instructions = instructions(&self.store.container_directory(&id), &config, log.clone())?;
        let mut status = super::container_status(&id, config, self.now());
        status.log_path = log.to_string_lossy().into_owned();
        let container = Container { sandbox_id: request.pod_sandbox_id, status, instructions, shim: None, process: None };
        self.save_container(&id, &container)?;
        state.containers.insert(id.clone(), container);
        Ok(v1::CreateContainerResponse { container_id: id })
    }

    async fn start_container(&self, request: v1::StartContainerRequest) -> CriResult<v1::StartContainerResponse> {
        let id = request.container_id;
        let directory = self.store.container_directory(&id);
        let started = shim::launch(&self.shim, &directory).await;
        let now = self.now();
        let mut state = self.state.lock();
        let container = state.containers.get_mut(&id).ok_or_else(|| not_found("container", &id))?;
        let result = match started {
            Ok((shim, process)) => {
                container.status.state = v1::ContainerState::ContainerRunning as i32;
                container.status.started_at = now;
                (container.shim, container.process) = (Some(shim), Some(process));
                Ok(v1::StartContainerResponse {})
            }
            Err(error) => {
                container.exited(128, now);
                container.status.reason = "StartError".into();
                container.status.message.clone_from(&error);
                Err(tonic::Status::unknown(error))
            }
        };
        self.save_container(&id, container)?;
        result
    }

    async fn stop_container(&self, request: v1::StopContainerRequest) -> CriResult<v1::StopContainerResponse> {
        let grace = Duration::from_secs(request.timeout.max(0).unsigned_abs());
        self.stop(&request.container_id, grace).await?;
        Ok(v1::StopContainerResponse {})
    }

    async fn remove_container(&self, request: v1::RemoveContainerRequest) -> CriResult<v1::RemoveContainerResponse> {
        let id = request.container_id;
        self.stop(&id, Duration::ZERO).await?;
        self.state.lock().containers.remove(&id);
        self.store.remove_container(&id).map_err(|e| tonic::Status::internal(format!("remove container {id:?}: {e}")))?;
        Ok(v1::RemoveContainerResponse {})
    }

    async fn list_containers(&self, request: v1::ListContainersRequest) -> CriResult<v1::ListContainersResponse> {
        let mut state = self.state.lock();
        self.refresh(&mut state);
        let items = state.containers.values().filter(|c| filter::container(&request, &c.status, &c.sandbox_id));
        Ok(v1::ListContainersResponse { containers: items.map(|c| filter::container_item(&c.status, &c.sandbox_id)).collect() })
    }

    async fn container_status(&self, request: v1::ContainerStatusRequest) -> CriResult<v1::ContainerStatusResponse> {
        let container = self.container(&request.container_id)?;
        Ok(v1::ContainerStatusResponse { status: Some(container.status), info: HashMap::new() })
    }

    async fn reopen_container_log(&self, request: v1::ReopenContainerLogRequest) -> CriResult<v1::ReopenContainerLogResponse> {
        let container = self.container(&request.container_id)?;
        if let Some(shim) = container.shim {
            shim.signal(nix::sys::signal::Signal::SIGUSR1);
        }
        Ok(v1::ReopenContainerLogResponse {})
    }

    async fn exec_sync(&self, request: v1::ExecSyncRequest) -> CriResult<v1::ExecSyncResponse> {
        let container = self.container(&request.container_id)?;
        if !container.is_running() {
            return Err(tonic::Status::failed_precondition(format!("container {:?} is not running", request.container_id)));
        }
        exec::run(&container.instructions, request).await
    }

    async fn image_status(&self, request: v1::ImageStatusRequest) -> CriResult<v1::ImageStatusResponse> {
        Ok(v1::ImageStatusResponse { image: Some(super::image(request.image.unwrap_or_default())), info: HashMap::new() })
    }

    async fn list_images(&self, _: v1::ListImagesRequest) -> CriResult<v1::ListImagesResponse> {
        Ok(v1::ListImagesResponse::default())
    }

    async fn pull_image(&self, request: v1::PullImageRequest) -> CriResult<v1::PullImageResponse> {
        Ok(v1::PullImageResponse { image_ref: super::image(request.image.unwrap_or_default()).id })
    }
}

#[cfg(test)]
mod tests;
