//! One node: what its pods' workers share, and the loops around it.

pub(crate) mod capacity;
pub(crate) mod cgroups;
pub(crate) mod dns;
pub(crate) mod events;
pub(crate) mod eviction;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod garbage;
pub(crate) mod heartbeat;
pub(crate) mod lease;
pub(crate) mod object;
pub(crate) mod orphans;
pub(crate) mod paths;
pub(crate) mod pods;
pub(crate) mod relist;
pub(crate) mod services;
pub(crate) mod statuses;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Taint};
use kube::Client;

use crate::{
    cri::{
        Cri,
        observed::{self, Observed},
        v1,
    },
    pod::{facts, images::Images},
    volume::{Volumes, objects::Objects, token::Tokens},
};

/// Settings that all nodes of a process share.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) dns: dns::Dns,
    pub(crate) max_restart_delay: SignedDuration,
    pub(crate) max_pods: i64,
    pub(crate) thresholds: eviction::Thresholds,
    pub(crate) garbage: garbage::GarbagePolicy,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) register: bool,
    pub(crate) lease_seconds: i32,
    pub(crate) status_update: std::time::Duration,
    pub(crate) status_report: std::time::Duration,
    /// Port of the kubelet's server, as the API server shall reach it.
    pub(crate) port: u16,
}

/// What the workers of one node share.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) cri: Arc<dyn Cri>,
    /// Name of the runtime, as in `containerd://ID`.
    pub(crate) runtime: String,
    /// The runtime's own version.
    pub(crate) runtime_version: String,
    /// Containers do no IO: no volumes, environments or probes.
    pub(crate) simulated: bool,
    pub(crate) paths: paths::Paths,
    pub(crate) host_ips: Vec<String>,
    pub(crate) capacity: capacity::Capacity,
    /// Files of cgroup v2 with what every container has in them.
    pub(crate) cgroup_files: HashMap<String, String>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) events: events::Events,
    pub(crate) objects: Objects,
    pub(crate) tokens: Tokens,
    pub(crate) services: services::Services,
    pub(crate) images: Images,
    pub(crate) volumes: Volumes,
    pub(crate) statuses: statuses::Statuses,
    pub(crate) pods: pods::Pods,
    pub(crate) clock: fn() -> Timestamp,
}

impl Node {
    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The pod's address according to the runtime.
    pub(crate) async fn pod_ip(&self, pod: &Pod) -> Option<String> {
        if facts::host_network(pod) {
            return self.host_ips.first().cloned();
        }
        let observed = observed::observe(&*self.cri, facts::uid(pod)).await.ok()?;
        observed.sandbox().and_then(|s| s.ips.first().cloned())
    }

    /// Removes what a stopped pod leaves: containers, sandboxes, volumes and logs.
    pub(crate) async fn remove_pod(&self, pod: &Pod, observed: &Observed) {
        let uid = facts::uid(pod);
        self.remove_from_runtime(observed).await;
        self.volumes.forget(uid);
        self.tokens.forget(uid);
        self.images.forget(uid);
        if self.simulated {
            return;
        }
        for directory in [self.paths.pod(uid), self.paths.pod_logs(pod)] {
            remove_directory(&directory).await;
        }
    }

    /// Removes stopped containers and sandboxes.
    pub(crate) async fn remove_from_runtime(&self, observed: &Observed) {
        for container in &observed.containers {
            let request = v1::RemoveContainerRequest { container_id: container.id.clone() };
            if let Err(error) = self.cri.remove_container(request).await {
                tracing::warn!(node = self.name, container = container.id, error = crate::cri::describe(&error), "remove container");
            }
        }
        for sandbox in &observed.sandboxes {
            let request = v1::RemovePodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
            if let Err(error) = self.cri.remove_pod_sandbox(request).await {
                tracing::warn!(node = self.name, sandbox = sandbox.id, error = crate::cri::describe(&error), "remove sandbox");
            }
        }
    }
}

/// Removes a directory tree; one that is not there is fine.
pub(crate) async fn remove_directory(directory: &std::path::Path) {
    match tokio::fs::remove_dir_all(directory).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "remove directory");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
