//! The resources of group `batch`.

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("batch", "v1", "CronJob", "cronjobs").short(&["cj"]).category("all").status(),
        namespaced("batch", "v1", "Job", "jobs").category("all").status(),
    ]
}
