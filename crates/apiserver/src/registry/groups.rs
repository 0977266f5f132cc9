//! The tables of all built-in groups, in the order discovery shows them.

use super::*;

/// Every built-in resource, group by group; of a group's versions the preferred one first.
pub(crate) fn builtin_resources(wiring: &Wiring) -> Vec<Resource> {
    [
        core::table(wiring),
        apiregistration::table(),
        apps::table(),
        events::table(wiring),
        authentication::table(wiring),
        authorization::table(wiring),
        autoscaling::table(),
        batch::table(),
        certificates::table(),
        networking::table(),
        policy::table(),
        rbac::table(),
        storage_k8s::table(),
        admissionregistration::table(),
        apiextensions::table(),
        scheduling::table(),
        coordination::table(),
        node::table(),
        discovery::table(),
        resource_k8s::table(),
        flowcontrol::table(),
    ]
    .concat()
}
