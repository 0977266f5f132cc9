//! The resources of group `discovery.k8s.io`.

mod endpointslice;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").strategy(endpointslice::EndpointSlice)]
}
