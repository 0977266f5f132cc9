//! The resources of group `coordination.k8s.io`.

mod lease;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![namespaced("coordination.k8s.io", "v1", "Lease", "leases").strategy(lease::Lease)]
}
