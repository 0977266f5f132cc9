//! The resources of group `apps`.

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("apps", "v1", "ControllerRevision", "controllerrevisions"),
        namespaced("apps", "v1", "DaemonSet", "daemonsets").short(&["ds"]).category("all").status(),
        namespaced("apps", "v1", "Deployment", "deployments").short(&["deploy"]).category("all").scale().status(),
        namespaced("apps", "v1", "ReplicaSet", "replicasets").short(&["rs"]).category("all").scale().status(),
        namespaced("apps", "v1", "StatefulSet", "statefulsets").short(&["sts"]).category("all").scale().status(),
    ]
}
