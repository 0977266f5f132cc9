//! The resources of group `resource.k8s.io`.

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("resource.k8s.io", "v1", "DeviceClass", "deviceclasses").returns_deleted(),
        namespaced("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims").status().returns_deleted(),
        namespaced("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates").returns_deleted(),
        cluster("resource.k8s.io", "v1", "ResourceSlice", "resourceslices").returns_deleted(),
    ]
}
