//! The resources of group `authentication.k8s.io`.

use super::Resource;

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    Vec::new()
}
