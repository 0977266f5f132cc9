//! A pod with all that decisions ask of it computed once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeAffinity, Pod, PodSpec, Toleration};

use super::resources::{Resources, pod_requests, pod_scored};

/// A port taken on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) address: String,
    pub(crate) protocol: String,
    pub(crate) port: i32,
}

const ANY: &str = "0.0.0.0";

impl HostPort {
    /// Whether both cannot be held on one node.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let addresses_meet = self.address == other.address || self.address == ANY || other.address == ANY;
        self.port == other.port && self.protocol == other.protocol && addresses_meet
    }
}

/// A pod and what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct PodInfo {
    pub(crate) pod: Arc<Pod>,
    pub(crate) requests: Resources,
    pub(crate) scored: Resources,
    pub(crate) host_ports: Vec<HostPort>,
}

static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

impl PodInfo {
    pub(crate) fn new(pod: Arc<Pod>) -> Self {
        let spec = pod.spec.as_ref().unwrap_or(&EMPTY);
        let (requests, scored, host_ports) = (pod_requests(spec), pod_scored(spec), host_ports(spec));
        Self { pod, requests, scored, host_ports }
    }

    pub(crate) fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().unwrap_or(&EMPTY)
    }

    pub(crate) fn tolerations(&self) -> &[Toleration] {
        self.spec().tolerations.as_deref().unwrap_or_default()
    }

    pub(crate) fn node_affinity(&self) -> Option<&NodeAffinity> {
        self.spec().affinity.as_ref()?.node_affinity.as_ref()
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let address = port.host_ip.clone().filter(|address| !address.is_empty()).unwrap_or_else(|| ANY.to_owned());
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some(HostPort { address, protocol, port: port.host_port.filter(|port| *port > 0)? })
        })
        .collect()
}
