//! The resources of group `storage.k8s.io`.

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("storage.k8s.io", "v1", "CSIDriver", "csidrivers"),
        cluster("storage.k8s.io", "v1", "CSINode", "csinodes"),
        namespaced("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities"),
        cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]),
        cluster("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments").status(),
        cluster("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]),
    ]
}
