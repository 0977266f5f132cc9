//! The resources of group `authorization.k8s.io`.

use super::Resource;

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    Vec::new()
}
