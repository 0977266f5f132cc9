//! Obeys `spec.nodeName` in a pod that is bound already (static placements, mostly).

use crate::cache::{NodeInfo, PodInfo};
use crate::framework::{ClusterEvent, Filter, Plugin, Refusal, State};

pub(super) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        event == ClusterEvent::NodeAdded
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }
}

impl Filter for NodeName {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        match pod.spec().node_name.as_deref() {
            None | Some("") => Ok(()),
            Some(name) if name == node.name => Ok(()),
            Some(_) => Err(Refusal::unresolvable(self.name(), "node(s) didn't match the requested node name")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;

    #[test]
    fn only_the_named_node_will_do() {
        let pod = pod_info(json!({"nodeName": "a"}));
        assert!(NodeName.filter(&pod, &None, &node("a", json!({}), json!({}))).is_ok());
        assert!(NodeName.filter(&pod, &None, &node("b", json!({}), json!({}))).is_err());
    }
}
