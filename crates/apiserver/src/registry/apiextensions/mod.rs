//! The resources of group `apiextensions.k8s.io`.

pub(crate) mod approval;
pub(crate) mod definition;
pub(crate) mod view;

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
            .short(&["crd", "crds"])
            .category("api-extensions")
            .stored_under("apiextensions.k8s.io/customresourcedefinitions")
            .status()
            .strategy(definition::Definitions),
    ]
}
