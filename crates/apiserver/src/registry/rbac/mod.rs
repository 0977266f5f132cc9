//! The resources of group `rbac.authorization.k8s.io`.

mod binding;
mod role;

use super::{Resource, cluster, namespaced};

/// The group's name.
const GROUP: &str = "rbac.authorization.k8s.io";

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings").strategy(binding::Binding { cluster: true }),
        cluster(GROUP, "v1", "ClusterRole", "clusterroles").strategy(role::Role { cluster: true }),
        namespaced(GROUP, "v1", "RoleBinding", "rolebindings").strategy(binding::Binding { cluster: false }),
        namespaced(GROUP, "v1", "Role", "roles").strategy(role::Role { cluster: false }),
    ]
}
