//! The resources of group `authorization.k8s.io`.

use super::{Resource, Wiring};

/// One line per resource.
pub(crate) fn table(_wiring: &Wiring) -> Vec<Resource> {
    Vec::new()
}
