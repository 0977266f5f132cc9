//! The priorities of what this server serves itself, as upstream registers them.

/// Where discovery shows a group and version: higher ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    /// `spec.groupPriorityMinimum`.
    pub(crate) group: i64,
    /// `spec.versionPriority`.
    pub(crate) version: i64,
}

/// The group of the APIServices themselves has none of them, and always comes first.
pub(crate) const OWN_GROUP: &str = "apiregistration.k8s.io";
const FIRST: Priority = Priority { group: i64::MAX, version: 0 };
/// Custom resources come after everything built in; their versions are ordered by what they say.
pub(super) const CUSTOM: Priority = Priority { group: 1000, version: 100 };

/// Group, version, their priorities.
const BUILTIN: [(&str, &str, i64, i64); 21] = [
    ("", "v1", 18000, 1),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("apps", "v1", 17800, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("networking.k8s.io", "v1", 17200, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("resource.k8s.io", "v1", 16200, 21),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("storage.k8s.io", "v1", 16800, 15),
];

/// The priority of a built-in group and version.
pub(super) fn builtin(group: &str, version: &str) -> Option<Priority> {
    let line = BUILTIN.iter().find(|(g, v, ..)| *g == group && *v == version);
    line.map(|(_, _, group, version)| Priority { group: *group, version: *version })
}

/// The priority of a group and version of this server that no APIService gives another.
pub(crate) fn of(group: &str, version: &str) -> Priority {
    if group == OWN_GROUP { FIRST } else { builtin(group, version).unwrap_or(CUSTOM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Wiring, builtin_resources};

    #[test]
    fn every_built_in_group_and_version_has_its_priority() {
        for resource in builtin_resources(&Wiring::default()).iter().filter(|resource| resource.group != OWN_GROUP) {
            assert!(builtin(&resource.group, &resource.version).is_some(), "{resource:?}");
        }
    }
}
