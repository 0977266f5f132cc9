//! The resources of group `node.k8s.io`.

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
    ]
}
