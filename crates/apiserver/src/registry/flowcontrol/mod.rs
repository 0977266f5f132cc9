//! The resources of group `flowcontrol.apiserver.k8s.io`.

mod flow;

use super::{Resource, cluster};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster(GROUP, "v1", "FlowSchema", "flowschemas").status().strategy(flow::FlowSchema),
        cluster(GROUP, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations").status().strategy(flow::PRIORITY_LEVEL),
    ]
}
