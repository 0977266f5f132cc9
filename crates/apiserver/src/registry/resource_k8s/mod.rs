//! The resources of group `resource.k8s.io`.

mod devices;

use super::{Resource, cluster, namespaced};

const GROUP: &str = "resource.k8s.io";

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster(GROUP, "v1", "DeviceClass", "deviceclasses").returns_deleted().strategy(devices::CLASS),
        namespaced(GROUP, "v1", "ResourceClaim", "resourceclaims").status().returns_deleted().strategy(devices::CLAIM),
        namespaced(GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates").returns_deleted().strategy(devices::TEMPLATE),
        cluster(GROUP, "v1", "ResourceSlice", "resourceslices").returns_deleted().strategy(devices::SLICE),
    ]
}
