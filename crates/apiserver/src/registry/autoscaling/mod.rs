//! The resources of group `autoscaling`.

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).category("all").status(),
        namespaced("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).category("all").status(),
    ]
}
