//! A runtime without containers: everything starts at once, has an address of its own and does no IO. For scale.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{filter, not_found};
use crate::cri::{Cri, CriResult, v1};

/// Addresses of one node's pods; wraps within the node's /24.
const PODS_PER_NODE: u32 = 254;
/// First address of node 0: 10.128.0.0, away from the service range.
const FIRST_NETWORK: u32 = 0x0a80_0000;

struct Sandbox {
    status: v1::PodSandboxStatus,
}

struct Container {
    sandbox_id: String,
    status: v1::ContainerStatus,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
    created: u64,
    last_host: u32,
}

/// Fake runtime of one node.
pub(crate) struct Hollow {
    network: u32,
    clock: fn() -> Timestamp,
    state: Mutex<State>,
}

impl Hollow {
    /// Runtime of the `index`-th node of this process; `clock` stamps what it makes.
    pub(crate) fn new(index: u32, clock: fn() -> Timestamp) -> Self {
        Self { network: FIRST_NETWORK + (index << 8), clock, state: Mutex::default() }
    }

    fn now(&self) -> i64 {
        i64::try_from((self.clock)().as_nanosecond()).unwrap_or(i64::MAX)
    }

    fn exit_all(&self, state: &mut State, sandbox_id: &str) {
        let now = self.now();
        state.containers.values_mut().filter(|c| c.sandbox_id == sandbox_id).for_each(|c| exit(&mut c.status, now));
    }
}

fn nothing_runs(what: &str) -> tonic::Status {
    tonic::Status::unimplemented(format!("{what} is not possible here: this is a hollow node, its containers only seem to run"))
}

fn exit(status: &mut v1::ContainerStatus, now: i64) {
    if status.state == v1::ContainerState::ContainerRunning as i32 {
        status.state = v1::ContainerState::ContainerExited as i32;
        status.finished_at = now;
        status.exit_code = 0;
    }
}

impl State {
    fn id(&mut self) -> String {
        self.created += 1;
        format!("{:016x}", self.created)
    }

    /// The next free address; there are more than pods on a node.
    fn address(&mut self, network: u32) -> String {
        let taken: Vec<String> = self.sandboxes.values().filter_map(|s| Some(s.status.network.as_ref()?.ip.clone())).collect();
        for _ in 0..PODS_PER_NODE {
            self.last_host = self.last_host % PODS_PER_NODE + 1;
            let address = Ipv4Addr::from(network + self.last_host).to_string();
            if !taken.contains(&address) {
                return address;
            }
        }
        Ipv4Addr::from(network + 1).to_string()
    }
}

#[async_trait]
impl Cri for Hollow {
    fn relist_every(&self) -> Option<Duration> {
        None
    }

    async fn version(&self, _: v1::VersionRequest) -> CriResult<v1::VersionResponse> {
        Ok(super::version("hollow"))
    }

    async fn status(&self, _: v1::StatusRequest) -> CriResult<v1::StatusResponse> {
        Ok(super::all_ready())
    }

    async fn run_pod_sandbox(&self, request: v1::RunPodSandboxRequest) -> CriResult<v1::RunPodSandboxResponse> {
        let config = request.config.unwrap_or_default();
        let mut state = self.state.lock();
        let id = state.id();
        let host = super::on_host_network(&config);
        let ip = if host { String::new() } else { state.address(self.network) };
        let status = super::sandbox_status(&id, config, ip, host, self.now());
        state.sandboxes.insert(id.clone(), Sandbox { status });
        Ok(v1::RunPodSandboxResponse { pod_sandbox_id: id })
    }

    async fn stop_pod_sandbox(&self, request: v1::StopPodSandboxRequest) -> CriResult<v1::StopPodSandboxResponse> {
        let mut state = self.state.lock();
        self.exit_all(&mut state, &request.pod_sandbox_id);
        if let Some(sandbox) = state.sandboxes.get_mut(&request.pod_sandbox_id) {
            sandbox.status.state = v1::PodSandboxState::SandboxNotready as i32;
            sandbox.status.network = None;
        }
        Ok(v1::StopPodSandboxResponse {})
    }

    async fn remove_pod_sandbox(&self, request: v1::RemovePodSandboxRequest) -> CriResult<v1::RemovePodSandboxResponse> {
        let mut state = self.state.lock();
        state.containers.retain(|_, c| c.sandbox_id != request.pod_sandbox_id);
        state.sandboxes.remove(&request.pod_sandbox_id);
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
        let mut state = self.state.lock();
        if !state.sandboxes.contains_key(&request.pod_sandbox_id) {
            return Err(not_found("sandbox", &request.pod_sandbox_id));
        }
        let id = state.id();
        let status = super::container_status(&id, request.config.unwrap_or_default(), self.now());
        state.containers.insert(id.clone(), Container { sandbox_id: request.pod_sandbox_id, status });
        Ok(v1::CreateContainerResponse { container_id: id })
    }

    async fn start_container(&self, request: v1::StartContainerRequest) -> CriResult<v1::StartContainerResponse> {
        let now = self.now();
        let mut state = self.state.lock();
        let container = state.containers.get_mut(&request.container_id).ok_or_else(|| not_found("container", &request.container_id))?;
        container.status.state = v1::ContainerState::ContainerRunning as i32;
        container.status.started_at = now;
        Ok(v1::StartContainerResponse {})
    }

    async fn stop_container(&self, request: v1::StopContainerRequest) -> CriResult<v1::StopContainerResponse> {
        let now = self.now();
        if let Some(container) = self.state.lock().containers.get_mut(&request.container_id) {
            exit(&mut container.status, now);
        }
        Ok(v1::StopContainerResponse {})
    }

    async fn remove_container(&self, request: v1::RemoveContainerRequest) -> CriResult<v1::RemoveContainerResponse> {
        self.state.lock().containers.remove(&request.container_id);
        Ok(v1::RemoveContainerResponse {})
    }

    async fn list_containers(&self, request: v1::ListContainersRequest) -> CriResult<v1::ListContainersResponse> {
        let state = self.state.lock();
        let items = state.containers.values().filter(|c| filter::container(&request, &c.status, &c.sandbox_id));
        Ok(v1::ListContainersResponse { containers: items.map(|c| filter::container_item(&c.status, &c.sandbox_id)).collect() })
    }

    async fn container_status(&self, request: v1::ContainerStatusRequest) -> CriResult<v1::ContainerStatusResponse> {
        let state = self.state.lock();
        let container = state.containers.get(&request.container_id).ok_or_else(|| not_found("container", &request.container_id))?;
        Ok(v1::ContainerStatusResponse { status: Some(container.status.clone()), info: HashMap::new() })
    }

    async fn reopen_container_log(&self, _: v1::ReopenContainerLogRequest) -> CriResult<v1::ReopenContainerLogResponse> {
        Ok(v1::ReopenContainerLogResponse {})
    }

    async fn exec_sync(&self, _: v1::ExecSyncRequest) -> CriResult<v1::ExecSyncResponse> {
        Ok(v1::ExecSyncResponse::default())
    }

    async fn exec(&self, _: v1::ExecRequest) -> CriResult<v1::ExecResponse> {
        Err(nothing_runs("exec"))
    }

    async fn attach(&self, _: v1::AttachRequest) -> CriResult<v1::AttachResponse> {
        Err(nothing_runs("attach"))
    }

    async fn port_forward(&self, _: v1::PortForwardRequest) -> CriResult<v1::PortForwardResponse> {
        Err(nothing_runs("port-forward"))
    }

    async fn update_runtime_config(&self, _: v1::UpdateRuntimeConfigRequest) -> CriResult<v1::UpdateRuntimeConfigResponse> {
        Ok(v1::UpdateRuntimeConfigResponse {})
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
mod tests {
    use super::*;
    use crate::cri::{labels, observed};

    fn sandbox_config(uid: &str) -> v1::PodSandboxConfig {
        v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata { uid: uid.into(), ..Default::default() }),
            labels: HashMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]),
            ..Default::default()
        }
    }

    async fn run(runtime: &Hollow, uid: &str) -> String {
        let config = sandbox_config(uid);
        let request = v1::RunPodSandboxRequest { config: Some(config), ..Default::default() };
        let sandbox = runtime.run_pod_sandbox(request).await.unwrap().pod_sandbox_id;
        let labels = HashMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]);
        let config = v1::ContainerConfig { labels, ..Default::default() };
        let request = v1::CreateContainerRequest { pod_sandbox_id: sandbox.clone(), config: Some(config), sandbox_config: None };
        let id = runtime.create_container(request).await.unwrap().container_id;
        runtime.start_container(v1::StartContainerRequest { container_id: id }).await.unwrap();
        sandbox
    }

    #[tokio::test]
    async fn a_pod_runs_at_once_and_goes_without_a_trace() {
        let runtime = Hollow::new(0, Timestamp::now);
        let sandbox = run(&runtime, "u1").await;
        let seen = observed::observe(&runtime, "u1").await.unwrap();
        assert_eq!(seen.usable_sandbox().unwrap().ips, ["10.128.0.1"]);
        assert_eq!(seen.running().count(), 1);
        runtime.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
        assert_eq!(observed::observe(&runtime, "u1").await.unwrap().running().count(), 0);
        runtime.remove_pod_sandbox(v1::RemovePodSandboxRequest { pod_sandbox_id: sandbox }).await.unwrap();
        assert_eq!(observed::observe(&runtime, "u1").await.unwrap(), observed::Observed::default());
    }

    #[tokio::test]
    async fn thousands_of_nodes_have_pods_with_addresses_of_their_own() {
        let nodes: Vec<Hollow> = (0..2000).map(|index| Hollow::new(index, Timestamp::now)).collect();
        let mut addresses = std::collections::BTreeSet::new();
        for (index, node) in nodes.iter().enumerate() {
            for pod in 0..3 {
                let uid = format!("{index}-{pod}");
                run(node, &uid).await;
                addresses.extend(observed::observe(node, &uid).await.unwrap().sandboxes[0].ips.clone());
            }
        }
        assert_eq!(addresses.len(), 6000);
    }
}
