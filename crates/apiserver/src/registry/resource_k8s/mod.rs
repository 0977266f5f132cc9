//! The resources of group `resource.k8s.io`.

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"),
        namespaced("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims").status(),
        namespaced("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
        cluster("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"),
    ]
}
