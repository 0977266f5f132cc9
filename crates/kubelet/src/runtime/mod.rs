//! Runtimes inside this process, behind the same door as those behind a socket.

pub(crate) mod filter;
pub(crate) mod hollow;
pub(crate) mod process;

use crate::cri::v1;

/// Version of CRI these runtimes speak.
const API_VERSION: &str = "v1";

fn not_found(what: &str, id: &str) -> tonic::Status {
    tonic::Status::not_found(format!("an error occurred when try to find {what} {id:?}: not found"))
}

fn version(name: &str) -> v1::VersionResponse {
    v1::VersionResponse {
        version: "0.1.0".into(),
        runtime_name: name.into(),
        runtime_version: env!("CARGO_PKG_VERSION").into(),
        runtime_api_version: API_VERSION.into(),
    }
}

fn all_ready() -> v1::StatusResponse {
    let condition = |kind: &str| v1::RuntimeCondition { r#type: kind.into(), status: true, ..Default::default() };
    v1::StatusResponse {
        status: Some(v1::RuntimeStatus { conditions: vec![condition("RuntimeReady"), condition("NetworkReady")] }),
        ..Default::default()
    }
}

fn on_host_network(config: &v1::PodSandboxConfig) -> bool {
    let options = config.linux.as_ref().and_then(|l| l.security_context.as_ref()?.namespace_options.as_ref());
    options.is_some_and(|o| o.network == v1::NamespaceMode::Node as i32)
}

/// Status of a sandbox just made from `config`, at `now` nanoseconds.
fn sandbox_status(id: &str, config: v1::PodSandboxConfig, ip: String, host: bool, now: i64) -> v1::PodSandboxStatus {
    let network = if host { v1::NamespaceMode::Node } else { v1::NamespaceMode::Pod } as i32;
    let options = v1::NamespaceOption { network, ..Default::default() };
    v1::PodSandboxStatus {
        id: id.to_owned(),
        metadata: config.metadata,
        state: v1::PodSandboxState::SandboxReady as i32,
        created_at: now,
        network: Some(v1::PodSandboxNetworkStatus { ip, additional_ips: vec![] }),
        linux: Some(v1::LinuxPodSandboxStatus { namespaces: Some(v1::Namespace { options: Some(options) }) }),
        labels: config.labels,
        annotations: config.annotations,
        runtime_handler: String::new(),
    }
}

/// Status of a container just made from `config`, at `now` nanoseconds.
fn container_status(id: &str, config: v1::ContainerConfig, now: i64) -> v1::ContainerStatus {
    let spec = config.image.unwrap_or_default();
    let named = v1::ImageSpec {
        image: if spec.user_specified_image.is_empty() { spec.image.clone() } else { spec.user_specified_image.clone() },
        ..Default::default()
    };
    v1::ContainerStatus {
        id: id.to_owned(),
        metadata: config.metadata,
        state: v1::ContainerState::ContainerCreated as i32,
        created_at: now,
        image_ref: image(spec).id,
        image: Some(named),
        labels: config.labels,
        annotations: config.annotations,
        mounts: config.mounts,
        log_path: config.log_path,
        ..Default::default()
    }
}

/// A stand-in for an image where images mean nothing: known by its own name.
fn image(spec: v1::ImageSpec) -> v1::Image {
    v1::Image { id: spec.image.clone(), repo_tags: vec![spec.image.clone()], spec: Some(spec), ..Default::default() }
}
