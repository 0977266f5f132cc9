//! The resources of group `apps`.

mod controllerrevision;
mod daemonset;
mod deployment;
mod replicaset;
mod statefulset;
pub(crate) mod workload;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("apps", "v1", "ControllerRevision", "controllerrevisions").strategy(controllerrevision::ControllerRevision),
        namespaced("apps", "v1", "DaemonSet", "daemonsets").short(&["ds"]).category("all").status().strategy(daemonset::DaemonSet),
        namespaced("apps", "v1", "Deployment", "deployments")
            .short(&["deploy"])
            .category("all")
            .scale()
            .status()
            .strategy(deployment::Deployment),
        namespaced("apps", "v1", "ReplicaSet", "replicasets")
            .short(&["rs"])
            .category("all")
            .scale()
            .status()
            .strategy(replicaset::ReplicaSet),
        namespaced("apps", "v1", "StatefulSet", "statefulsets")
            .short(&["sts"])
            .category("all")
            .scale()
            .status()
            .strategy(statefulset::StatefulSet),
    ]
}
