//! The resources of group `node.k8s.io`.

mod runtimeclass;

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![cluster("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses").strategy(runtimeclass::RuntimeClass)]
}
