//! The resources of group `rbac.authorization.k8s.io`.

use super::{Resource, cluster, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"),
        cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
        namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
        namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ]
}
