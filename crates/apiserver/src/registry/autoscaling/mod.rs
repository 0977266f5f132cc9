//! The resources of group `autoscaling`.

mod convert;
mod hpa;
mod targets;

use hpa::Autoscaler;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    let hpa = |version, old_form| {
        let resource = namespaced("autoscaling", version, "HorizontalPodAutoscaler", "horizontalpodautoscalers");
        resource.short(&["hpa"]).category("all").status().strategy(Autoscaler { old_form })
    };
    vec![hpa("v2", false), hpa("v1", true).stored_as("autoscaling", "v2", convert::V1)]
}
