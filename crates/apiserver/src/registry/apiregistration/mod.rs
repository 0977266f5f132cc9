//! The resources of group `apiregistration.k8s.io`.

mod apiservice;

pub(crate) use apiservice::local_condition;

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices")
            .category("api-extensions")
            .stored_under("apiregistration.k8s.io/apiservices")
            .status()
            .strategy(apiservice::ApiService),
    ]
}
