//! The resources of group `storage.k8s.io`.

mod attachment;
mod csi;
mod storageclass;

use super::{Resource, cluster, namespaced};

const GROUP: &str = "storage.k8s.io";

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster(GROUP, "v1", "CSIDriver", "csidrivers").returns_deleted().strategy(csi::DRIVER),
        cluster(GROUP, "v1", "CSINode", "csinodes").returns_deleted().strategy(csi::NODE),
        namespaced(GROUP, "v1", "CSIStorageCapacity", "csistoragecapacities").returns_deleted().strategy(csi::Capacity),
        cluster(GROUP, "v1", "StorageClass", "storageclasses").short(&["sc"]).returns_deleted().strategy(storageclass::StorageClass),
        cluster(GROUP, "v1", "VolumeAttachment", "volumeattachments").status().returns_deleted().strategy(attachment::VolumeAttachment),
        cluster(GROUP, "v1", "VolumeAttributesClass", "volumeattributesclasses")
            .short(&["vac"])
            .returns_deleted()
            .strategy(attachment::ATTRIBUTES),
    ]
}
