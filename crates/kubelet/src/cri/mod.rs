//! The one door to a container runtime: CRI v1.
//!
//! [`Cri`] has the calls the kubelet makes, with CRI's own messages. A runtime behind a socket is [`socket::Socket`];
//! runtimes inside this process implement the trait themselves.

pub(crate) mod labels;
pub(crate) mod observed;
pub(crate) mod socket;

use std::time::Duration;

use async_trait::async_trait;
pub(crate) use k8s_cri::v1;

/// What a CRI call returns: the runtime's own gRPC status on failure.
pub(crate) type CriResult<T> = Result<T, tonic::Status>;

/// How long most calls may take (upstream's `runtimeRequestTimeout`).
pub(crate) const REQUEST: Duration = Duration::from_secs(120);

/// Runs `$then!` with the table of calls: method, request, response, service, and the deadline from the request.
macro_rules! cri_calls {
    ($then:ident) => {
        $then! {
            /// Name and version of the runtime.
            runtime version(VersionRequest) -> VersionResponse, |_| REQUEST;
            /// Whether the runtime and its network are ready.
            runtime status(StatusRequest) -> StatusResponse, |_| REQUEST;
            /// Creates and starts a sandbox: the pod's namespaces and network.
            runtime run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse, |_| REQUEST * 2;
            /// Stops a sandbox and whatever still runs in it; idempotent.
            runtime stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse, |_| REQUEST;
            /// Removes a stopped sandbox; idempotent.
            runtime remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse, |_| REQUEST;
            /// State and addresses of a sandbox.
            runtime pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse, |_| REQUEST;
            /// Sandboxes by filter.
            runtime list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse, |_| REQUEST;
            /// Creates a container in a sandbox.
            runtime create_container(CreateContainerRequest) -> CreateContainerResponse, |_| REQUEST;
            /// Starts a created container.
            runtime start_container(StartContainerRequest) -> StartContainerResponse, |_| REQUEST;
            /// Stops a container: SIGTERM, then SIGKILL after the request's timeout; idempotent.
            runtime stop_container(StopContainerRequest) -> StopContainerResponse,
                |r| REQUEST + Duration::from_secs(r.timeout.max(0).unsigned_abs());
            /// Removes a container; idempotent.
            runtime remove_container(RemoveContainerRequest) -> RemoveContainerResponse, |_| REQUEST;
            /// Containers by filter.
            runtime list_containers(ListContainersRequest) -> ListContainersResponse, |_| REQUEST;
            /// State of one container.
            runtime container_status(ContainerStatusRequest) -> ContainerStatusResponse, |_| REQUEST;
            /// Tells the runtime that its log file was moved away.
            runtime reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse, |_| REQUEST;
            /// Runs a command in a container and returns its output.
            runtime exec_sync(ExecSyncRequest) -> ExecSyncResponse,
                |r| Duration::from_secs(if r.timeout > 0 { r.timeout.unsigned_abs() + 10 } else { 600 });
            /// Prepares a command in a container; answers where its streams are served.
            runtime exec(ExecRequest) -> ExecResponse, |_| REQUEST;
            /// Prepares the streams of a container's own process; answers where they are served.
            runtime attach(AttachRequest) -> AttachResponse, |_| REQUEST;
            /// Prepares connections to ports of a sandbox; answers where they are served.
            runtime port_forward(PortForwardRequest) -> PortForwardResponse, |_| REQUEST;
            /// Tells the runtime the node's range of pod addresses.
            runtime update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse, |_| REQUEST;
            /// What is known of one image; no image when absent.
            images image_status(ImageStatusRequest) -> ImageStatusResponse, |_| REQUEST;
            /// Images on the node.
            images list_images(ListImagesRequest) -> ListImagesResponse, |_| REQUEST;
            /// Fetches an image.
            images pull_image(PullImageRequest) -> PullImageResponse, |_| REQUEST * 15;
        }
    };
}
pub(crate) use cri_calls;

macro_rules! cri_trait {
    ($($(#[$doc:meta])* $service:ident $call:ident($req:ident) -> $resp:ident, $deadline:expr;)*) => {
        /// The CRI calls the kubelet makes. Every call is bounded in time by its implementation.
        #[async_trait]
        pub(crate) trait Cri: Send + Sync + 'static {
            $($(#[$doc])* async fn $call(&self, request: v1::$req) -> CriResult<v1::$resp>;)*

            /// How often to look for changes nobody announced. `None`: containers change by the kubelet's own calls only.
            fn relist_every(&self) -> Option<Duration> {
                Some(Duration::from_secs(1))
            }
        }
    };
}
cri_calls!(cri_trait);

/// A gRPC status as Go clients print it; users search for this form.
pub(crate) fn describe(status: &tonic::Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}
