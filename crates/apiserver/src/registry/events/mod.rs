//! The resources of group `events.k8s.io`.

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("events.k8s.io", "v1", "Event", "events").short(&["ev"]),
    ]
}
