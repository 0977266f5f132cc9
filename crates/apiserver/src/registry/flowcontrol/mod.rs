//! The resources of group `flowcontrol.apiserver.k8s.io`.

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas").status(),
        cluster("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations").status(),
    ]
}
