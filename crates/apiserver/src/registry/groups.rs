//! All built-in groups, in the order discovery shows them.

use super::*;

/// One API group with its versions, the preferred one first.
pub(crate) struct Group {
    /// The group's name, empty for core.
    pub(crate) name: &'static str,
    /// Its resources; the order of versions is that of their first appearance.
    pub(crate) resources: Vec<Resource>,
}

/// The table of built-in groups.
pub(crate) fn builtin_groups(wiring: &Wiring) -> Vec<Group> {
    let group = |name, resources| Group { name, resources };
    vec![
        group("", core::table(wiring)),
        group("apiregistration.k8s.io", apiregistration::table()),
        group("apps", apps::table()),
        group("events.k8s.io", events::table()),
        group("authentication.k8s.io", authentication::table(wiring)),
        group("authorization.k8s.io", authorization::table(wiring)),
        group("autoscaling", autoscaling::table()),
        group("batch", batch::table()),
        group("certificates.k8s.io", certificates::table()),
        group("networking.k8s.io", networking::table()),
        group("policy", policy::table()),
        group("rbac.authorization.k8s.io", rbac::table()),
        group("storage.k8s.io", storage_k8s::table()),
        group("admissionregistration.k8s.io", admissionregistration::table()),
        group("apiextensions.k8s.io", apiextensions::table()),
        group("scheduling.k8s.io", scheduling::table()),
        group("coordination.k8s.io", coordination::table()),
        group("node.k8s.io", node::table()),
        group("discovery.k8s.io", discovery::table()),
        group("resource.k8s.io", resource_k8s::table()),
        group("flowcontrol.apiserver.k8s.io", flowcontrol::table()),
    ]
}
