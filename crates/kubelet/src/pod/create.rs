//! CRI configurations from a pod's spec: sandbox and container.

use std::{collections::HashMap, path::PathBuf};

use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::{env, facts, fields, images::Present, qos, security, start::StartError};
use crate::{
    cri::{
        labels,
        observed::{self, Sandbox},
        v1,
    },
    node::Node,
};

/// Reason of a container that cannot be configured.
const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// Configuration of the pod's sandbox.
pub(crate) fn sandbox_config(node: &Node, pod: &Pod, attempt: u32) -> v1::PodSandboxConfig {
    let spec = pod.spec.as_ref();
    let hostname = if facts::host_network(pod) { node.name.clone() } else { hostname(pod) };
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: facts::name(pod).to_owned(),
            uid: facts::uid(pod).to_owned(),
            namespace: facts::namespace(pod).to_owned(),
            attempt,
        }),
        hostname,
        log_directory: node.paths.pod_logs(pod).to_string_lossy().into_owned(),
        dns_config: Some(node.settings.dns.config(pod)),
        port_mappings: spec.map(port_mappings).unwrap_or_default(),
        labels: labels::sandbox(pod),
        annotations: pod.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: String::new(),
            security_context: Some(security::sandbox(pod)),
            sysctls: sysctls(spec),
            ..Default::default()
        }),
        windows: None,
    }
}

/// `spec.hostname`, or the pod's name, cut to what a kernel takes.
fn hostname(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    let name = spec.and_then(|s| s.hostname.as_deref()).filter(|h| !h.is_empty()).unwrap_or_else(|| facts::name(pod));
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

fn sysctls(spec: Option<&PodSpec>) -> HashMap<String, String> {
    let list = spec.and_then(|s| s.security_context.as_ref()?.sysctls.as_ref());
    list.into_iter().flatten().map(|s| (s.name.clone(), s.value.clone())).collect()
}

fn port_mappings(spec: &PodSpec) -> Vec<v1::PortMapping> {
    let ports = facts::all_containers(spec).flat_map(|c| c.ports.iter().flatten());
    ports
        .map(|port| v1::PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => v1::Protocol::Udp,
                Some("SCTP") => v1::Protocol::Sctp,
                _ => v1::Protocol::Tcp,
            } as i32,
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

/// The request that creates `container` in the pod's newest sandbox.
pub(crate) async fn container_request(
    node: &Node,
    pod: &Pod,
    container: &Container,
    restarts: i32,
    image: Present,
) -> Result<v1::CreateContainerRequest, StartError> {
    let seen = observed::observe(&*node.cri, facts::uid(pod)).await;
    let sandbox = seen.ok().and_then(|seen| seen.usable_sandbox().cloned());
    let Some(sandbox) = sandbox else {
        return Err(StartError::new("CreateContainerError", "the pod has no sandbox that is ready"));
    };
    let config_error = |message: String| StartError::new(CONFIG_ERROR, message);
    let env = environment(node, pod, container, &sandbox).await.map_err(config_error)?;
    security::check(pod, container, &image).map_err(config_error)?;
    let mounts = if node.simulated { vec![] } else { mounts(node, pod, container, &env, &sandbox).await.map_err(config_error)? };
    let log_path = log_path(node, pod, container, restarts).await.map_err(config_error)?;
    let config = container_config(node, pod, container, restarts, image, env, mounts, log_path);
    Ok(v1::CreateContainerRequest {
        pod_sandbox_id: sandbox.id,
        config: Some(config),
        sandbox_config: Some(sandbox_config(node, pod, sandbox.attempt)),
    })
}

#[expect(clippy::too_many_arguments, reason = "each is one part of the configuration, prepared by its own module")]
fn container_config(
    node: &Node,
    pod: &Pod,
    container: &Container,
    restarts: i32,
    image: Present,
    env: IndexMap<String, String>,
    mounts: Vec<v1::Mount>,
    log_path: String,
) -> v1::ContainerConfig {
    let expand = |texts: &Option<Vec<String>>| -> Vec<String> {
        texts.iter().flatten().map(|text| env::expand(text, |name| env.get(name).cloned())).collect()
    };
    let spec = pod.spec.clone().unwrap_or_default();
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: container.name.clone(), attempt: u32::try_from(restarts).unwrap_or(0) }),
        command: expand(&container.command),
        args: expand(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        labels: labels::container(pod, &container.name),
        annotations: labels::annotations(pod, container, restarts),
        log_path,
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(v1::LinuxContainerResources {
                unified: node.cgroup_files.clone(),
                ..qos::linux_resources(&spec, container, node.capacity.memory)
            }),
            security_context: Some(security::container(pod, container)),
        }),
        image: Some(v1::ImageSpec { image: image.reference, user_specified_image: image.named, ..Default::default() }),
        envs: env.into_iter().map(|(key, value)| v1::KeyValue { key, value }).collect(),
        mounts,
        ..Default::default()
    }
}

/// `CONTAINER/RESTARTS.log`, under the sandbox's log directory.
async fn log_path(node: &Node, pod: &Pod, container: &Container, restarts: i32) -> Result<String, String> {
    if !node.simulated {
        let directory = node.paths.pod_logs(pod).join(&container.name);
        tokio::fs::create_dir_all(&directory).await.map_err(|e| format!("create log directory {directory:?}: {e}"))?;
    }
    Ok(format!("{}/{restarts}.log", container.name))
}

async fn environment(node: &Node, pod: &Pod, container: &Container, sandbox: &Sandbox) -> Result<IndexMap<String, String>, String> {
    if node.simulated {
        return Ok(IndexMap::new());
    }
    let namespace = facts::namespace(pod);
    let (maps, secrets) = env::needs(container);
    let mut sources = env::Sources::default();
    for name in maps {
        let found = node.objects.config_map_if_any(namespace, &name).await.map_err(|e| e.to_string())?;
        sources.config_maps.insert(name, found.map(|m| (*m).clone()));
    }
    for name in secrets {
        let found = node.objects.secret_if_any(namespace, &name).await.map_err(|e| e.to_string())?;
        sources.secrets.insert(name, found.map(|s| (*s).clone()));
    }
    let links = pod.spec.as_ref().and_then(|s| s.enable_service_links).unwrap_or(true);
    sources.services = node.services.variables(namespace, links).await;
    env::environment(pod, container, &sources, &node_facts(node, sandbox))
}

/// What the downward API says of this node and sandbox.
pub(crate) fn node_facts(node: &Node, sandbox: &Sandbox) -> fields::NodeFacts {
    fields::NodeFacts {
        pod_ips: sandbox.ips.clone(),
        host_ips: node.host_ips.clone(),
        cpu_milli: node.capacity.cpu * 1000,
        memory: node.capacity.memory,
    }
}

/// Volumes, the hosts file and the termination message file.
async fn mounts(
    node: &Node,
    pod: &Pod,
    container: &Container,
    env: &IndexMap<String, String>,
    sandbox: &Sandbox,
) -> Result<Vec<v1::Mount>, String> {
    let mut mounts = vec![];
    for mount in container.volume_mounts.iter().flatten() {
        let expanded = mount.sub_path_expr.as_deref().map(|text| env::expand(text, |name| env.get(name).cloned()));
        let sub_path = expanded.or_else(|| mount.sub_path.clone()).filter(|p| !p.is_empty());
        let host = node.volumes.host_path(pod, &mount.name, sub_path.as_deref()).await?;
        mounts.push(v1::Mount {
            container_path: mount.mount_path.clone(),
            host_path: host.path.to_string_lossy().into_owned(),
            readonly: mount.read_only.unwrap_or(false) || host.read_only,
            propagation: match mount.mount_propagation.as_deref() {
                Some("HostToContainer") => v1::MountPropagation::PropagationHostToContainer,
                Some("Bidirectional") => v1::MountPropagation::PropagationBidirectional,
                _ => v1::MountPropagation::PropagationPrivate,
            } as i32,
            ..Default::default()
        });
    }
    let taken = |path: &str| container.volume_mounts.iter().flatten().any(|m| m.mount_path == path);
    if !facts::host_network(pod) && !taken("/etc/hosts") {
        mounts.push(mount("/etc/hosts", &hosts_file(node, pod, sandbox).await?));
    }
    if let Some(path) = container.termination_message_path.as_deref().filter(|p| !p.is_empty()) {
        mounts.push(mount(path, &message_file(node, pod, container).await?));
    }
    Ok(mounts)
}

fn mount(container_path: &str, host_path: &std::path::Path) -> v1::Mount {
    v1::Mount { container_path: container_path.to_owned(), host_path: host_path.to_string_lossy().into_owned(), ..Default::default() }
}

/// An empty file of its own for each start of the container.
async fn message_file(node: &Node, pod: &Pod, container: &Container) -> Result<PathBuf, String> {
    let directory = node.paths.pod(facts::uid(pod)).join("containers").join(&container.name);
    let path = directory.join(format!("{:08x}", rand::random::<u32>()));
    let made = async {
        tokio::fs::create_dir_all(&directory).await?;
        tokio::fs::write(&path, b"").await?;
        // The container may run as any user.
        tokio::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).await
    };
    made.await.map_err(|e: std::io::Error| format!("create termination message file {path:?}: {e}"))?;
    Ok(path)
}

/// The hosts file the kubelet keeps for a pod with a network of its own.
async fn hosts_file(node: &Node, pod: &Pod, sandbox: &Sandbox) -> Result<PathBuf, String> {
    let path = node.paths.pod(facts::uid(pod)).join("etc-hosts");
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n",
    );
    let domain = node.settings.dns.pod_domain(pod);
    for ip in &sandbox.ips {
        match &domain {
            Some(domain) => text.push_str(&format!("{ip}\t{}.{domain}\t{}\n", hostname(pod), hostname(pod))),
            None => text.push_str(&format!("{ip}\t{}\n", hostname(pod))),
        }
    }
    let aliases: Vec<_> = pod.spec.iter().flat_map(|s| s.host_aliases.iter().flatten()).collect();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        text.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.clone().unwrap_or_default().join("\t")));
    }
    tokio::fs::write(&path, text).await.map_err(|e| format!("write {path:?}: {e}"))?;
    Ok(path)
}
