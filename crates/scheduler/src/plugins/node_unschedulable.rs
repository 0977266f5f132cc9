//! Keeps pods off cordoned nodes.

use crate::cache::{NodeInfo, PodInfo};
use crate::framework::{ClusterEvent, Filter, Plugin, Refusal, State};
use crate::plugins::taint_toleration::tolerates;

const TAINT: &str = "node.kubernetes.io/unschedulable";

pub(super) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded | ClusterEvent::NodeUpdated | ClusterEvent::PodUpdated)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        let cordoned = node.spec().unschedulable == Some(true);
        let tolerated = || pod.tolerations().iter().any(|toleration| tolerates(toleration, TAINT, "", "NoSchedule"));
        if cordoned && !tolerated() {
            return Err(Refusal::unresolvable(self.name(), "node(s) were unschedulable"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;

    #[test]
    fn a_cordoned_node_is_refused_unless_tolerated() {
        let cordoned = node("n", json!({"unschedulable": true}), json!({}));
        assert!(NodeUnschedulable.filter(&pod_info(json!({})), &None, &cordoned).is_err());
        let tolerant = pod_info(json!({"tolerations": [{"key": TAINT, "operator": "Exists"}]}));
        assert!(NodeUnschedulable.filter(&tolerant, &None, &cordoned).is_ok());
    }
}
