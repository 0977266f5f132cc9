//! Host ports: two pods on one node cannot have the same.

use crate::cache::{NodeInfo, PodInfo};
use crate::framework::{ClusterEvent, Filter, Plugin, Refusal, State};

pub(super) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded | ClusterEvent::AssignedPodFreed)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl Filter for NodePorts {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        if pod.host_ports.iter().any(|port| node.port_taken(port)) {
            return Err(Refusal::new(self.name(), "node(s) didn't have free ports for the requested pod ports"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;
    use std::sync::Arc;

    fn pod(port: u16, ip: &str, protocol: &str) -> PodInfo {
        pod_info(
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": port, "hostIP": ip, "protocol": protocol}]}]}),
        )
    }

    #[test]
    fn a_port_conflicts_on_the_same_or_any_address_only() {
        let mut taken = node("n", json!({}), json!({}));
        taken.add(Arc::new(pod(80, "127.0.0.1", "TCP")));
        let fits = |port, ip, protocol| NodePorts.filter(&pod(port, ip, protocol), &None, &taken).is_ok();
        assert!(!fits(80, "127.0.0.1", "TCP"));
        assert!(!fits(80, "", "TCP"));
        assert!(!fits(80, "0.0.0.0", "TCP"));
        assert!(fits(80, "127.0.0.2", "TCP"));
        assert!(fits(80, "127.0.0.1", "UDP"));
        assert!(fits(81, "127.0.0.1", "TCP"));
    }
}
