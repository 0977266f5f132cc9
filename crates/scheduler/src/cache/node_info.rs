//! A node and what is taken on it.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};

use super::pod_info::{HostPort, PodInfo};
use super::resources::Resources;

/// A node with the sums over its pods, so that a decision costs the same however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    node: Arc<Node>,
    pub(crate) allocatable: Resources,
    pub(crate) requested: Resources,
    pub(crate) scored: Resources,
    ports: Vec<HostPort>,
    pods: HashMap<String, Arc<PodInfo>>,
}

static EMPTY: std::sync::LazyLock<NodeSpec> = std::sync::LazyLock::new(NodeSpec::default);

impl NodeInfo {
    #[cfg(test)]
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let mut info = Self::default();
        info.set_node(node);
        info
    }

    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        self.name = node.metadata.name.clone().unwrap_or_default();
        self.allocatable = Resources::from_list(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
        self.node = node;
    }

    pub(crate) fn spec(&self) -> &NodeSpec {
        self.node.spec.as_ref().unwrap_or(&EMPTY)
    }

    pub(crate) fn taints(&self) -> &[Taint] {
        self.spec().taints.as_deref().unwrap_or_default()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&String> {
        self.node.metadata.labels.as_ref()?.get(key)
    }

    pub(crate) fn pod_count(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn port_taken(&self, port: &HostPort) -> bool {
        self.ports.iter().any(|taken| taken.conflicts(port))
    }

    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.scored.add(&pod.scored);
        self.ports.extend(pod.host_ports.iter().cloned());
        let uid = pod.pod.metadata.uid.clone().unwrap_or_default();
        self.pods.insert(uid, pod);
    }

    pub(super) fn remove(&mut self, pod: &PodInfo) {
        let uid = pod.pod.metadata.uid.as_deref().unwrap_or_default();
        if self.pods.remove(uid).is_none() {
            return;
        }
        self.requested.subtract(&pod.requests);
        self.scored.subtract(&pod.scored);
        for port in &pod.host_ports {
            if let Some(position) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(position);
            }
        }
    }
}
