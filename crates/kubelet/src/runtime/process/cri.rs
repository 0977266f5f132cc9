//! CRI's calls on plain processes.

use std::{collections::HashMap, path::Path, time::Duration};

use async_trait::async_trait;

use super::{
    Process, exec,
    instructions::instructions,
    new_id, shim,
    store::{Container, Sandbox},
    streams,
};
use crate::{
    cri::{Cri, CriResult, v1},
    runtime::{self, filter, not_found},
};

#[async_trait]
impl Cri for Process {
    async fn version(&self, _: v1::VersionRequest) -> CriResult<v1::VersionResponse> {
        Ok(runtime::version("process"))
    }

    async fn status(&self, _: v1::StatusRequest) -> CriResult<v1::StatusResponse> {
        Ok(runtime::all_ready())
    }

    async fn run_pod_sandbox(&self, request: v1::RunPodSandboxRequest) -> CriResult<v1::RunPodSandboxResponse> {
        let config = request.config.unwrap_or_default();
        let (id, now) = (new_id(), self.now());
        let mut state = self.state.lock();
        let host = runtime::on_host_network(&config);
        let ip = if host { String::new() } else { Self::address(&state) };
        let logs = config.log_directory.clone();
        let sandbox = Sandbox { status: runtime::sandbox_status(&id, config, ip, host, now), log_directory: logs };
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
        let mut status = runtime::container_status(&id, config, self.now());
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
        let container = self.running(&request.container_id)?;
        exec::run(&container.instructions, &request).await
    }

    async fn exec(&self, request: v1::ExecRequest) -> CriResult<v1::ExecResponse> {
        streams::check(&request.container_id, request.tty, [request.stdin, request.stdout, request.stderr])?;
        self.running(&request.container_id)?;
        Ok(v1::ExecResponse { url: self.door.url(streams::Prepared::Exec(request)).await? })
    }

    async fn attach(&self, request: v1::AttachRequest) -> CriResult<v1::AttachResponse> {
        streams::check(&request.container_id, request.tty, [request.stdin, request.stdout, request.stderr])?;
        self.running(&request.container_id)?;
        Ok(v1::AttachResponse { url: self.door.url(streams::Prepared::Attach(request)).await? })
    }

    async fn port_forward(&self, request: v1::PortForwardRequest) -> CriResult<v1::PortForwardResponse> {
        let id = &request.pod_sandbox_id;
        let ready = v1::PodSandboxState::SandboxReady as i32;
        match self.state.lock().sandboxes.get(id) {
            None => return Err(not_found("sandbox", id)),
            Some(sandbox) if sandbox.status.state != ready => return Err(tonic::Status::unknown("sandbox container is not running")),
            Some(_) => {}
        }
        Ok(v1::PortForwardResponse { url: self.door.url(streams::Prepared::PortForward(request)).await? })
    }

    async fn update_runtime_config(&self, _: v1::UpdateRuntimeConfigRequest) -> CriResult<v1::UpdateRuntimeConfigResponse> {
        Ok(v1::UpdateRuntimeConfigResponse {})
    }

    async fn image_status(&self, request: v1::ImageStatusRequest) -> CriResult<v1::ImageStatusResponse> {
        Ok(v1::ImageStatusResponse { image: Some(runtime::image(request.image.unwrap_or_default())), info: HashMap::new() })
    }

    async fn list_images(&self, _: v1::ListImagesRequest) -> CriResult<v1::ListImagesResponse> {
        Ok(v1::ListImagesResponse::default())
    }

    async fn pull_image(&self, request: v1::PullImageRequest) -> CriResult<v1::PullImageResponse> {
        Ok(v1::PullImageResponse { image_ref: runtime::image(request.image.unwrap_or_default()).id })
    }
}
