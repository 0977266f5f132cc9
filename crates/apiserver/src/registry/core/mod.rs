//! The resources of the core group.

use super::{Resource, cluster, namespaced, Wiring};

/// One line per resource.
pub(crate) fn table(_wiring: &Wiring) -> Vec<Resource> {
    vec![
        namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]),
        namespaced("", "v1", "Endpoints", "endpoints").short(&["ep"]).deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice").stored_under("services/endpoints"),
        namespaced("", "v1", "Event", "events").short(&["ev"]),
        namespaced("", "v1", "LimitRange", "limitranges").short(&["limits"]),
        cluster("", "v1", "Namespace", "namespaces").short(&["ns"]).without("deletecollection").status(),
        cluster("", "v1", "Node", "nodes").short(&["no"]).stored_under("minions").status(),
        namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).status().returns_deleted(),
        cluster("", "v1", "PersistentVolume", "persistentvolumes").short(&["pv"]).status().returns_deleted(),
        namespaced("", "v1", "Pod", "pods").short(&["po"]).category("all").status().returns_deleted(),
        namespaced("", "v1", "PodTemplate", "podtemplates").returns_deleted(),
        namespaced("", "v1", "ReplicationController", "replicationcontrollers").short(&["rc"]).category("all").stored_under("controllers").scale().status(),
        namespaced("", "v1", "ResourceQuota", "resourcequotas").short(&["quota"]).status().returns_deleted(),
        namespaced("", "v1", "Secret", "secrets"),
        namespaced("", "v1", "ServiceAccount", "serviceaccounts").short(&["sa"]).returns_deleted(),
        namespaced("", "v1", "Service", "services").short(&["svc"]).category("all").stored_under("services/specs").status().returns_deleted(),
    ]
}
