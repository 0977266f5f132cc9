//! What happens to nodes and to the pods on them: health and taints, eviction, pod ranges.

mod cidrs;
mod eviction;
mod health;
mod ipam;
mod lifecycle;
mod taints;
mod zones;

pub(crate) use eviction::run as run_eviction;
pub(crate) use ipam::run as run_ipam;
pub(crate) use lifecycle::run as run_lifecycle;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};

/// Index over pods by node.
pub(crate) const BY_NODE: &str = "node";

/// The node of a pod, for [`BY_NODE`].
pub(crate) fn node_of(pod: &Pod) -> Vec<String> {
    pod.spec.iter().filter_map(|spec| spec.node_name.clone()).filter(|name| !name.is_empty()).collect()
}

/// The condition of that type.
fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten().find(|condition| condition.type_ == kind)
}
