//! The resources of group `storage.k8s.io`.

mod storageclass;

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("storage.k8s.io", "v1", "CSIDriver", "csidrivers").returns_deleted(),
        cluster("storage.k8s.io", "v1", "CSINode", "csinodes").returns_deleted(),
        namespaced("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities").returns_deleted(),
        cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]).strategy(storageclass::StorageClass).returns_deleted(),
        cluster("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments").status().returns_deleted(),
        cluster("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses").short(&["vac"]).returns_deleted(),
    ]
}
