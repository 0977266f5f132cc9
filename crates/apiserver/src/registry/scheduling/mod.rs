//! The resources of group `scheduling.k8s.io`.

mod priorityclass;

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").short(&["pc"]).strategy(priorityclass::PriorityClass)]
}
