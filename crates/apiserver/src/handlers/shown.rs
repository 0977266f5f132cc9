//! Which groups and versions discovery shows, and in which order: those of this server and those of API servers behind it. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::versions;

use crate::aggregator::{ApiService, Discovered, Library, Priority, name_of, priority_of};
use crate::registry::catalog::{Catalog, VersionEntry};

/// Who serves a version.
pub(crate) enum By<'a> {
    /// This server.
    Us(&'a VersionEntry),
    /// One behind it, which says this of itself.
    Other(Discovered),
}

/// One version of a group.
pub(crate) struct ShownVersion<'a> {
    pub(crate) version: String,
    pub(crate) by: By<'a>,
    priority: i64,
}

/// One group.
pub(crate) struct ShownGroup<'a> {
    /// Empty for core.
    pub(crate) name: String,
    /// The preferred one first.
    pub(crate) versions: Vec<ShownVersion<'a>>,
    /// The highest of its APIServices', and the first name among those that have it.
    priority: i64,
    first: String,
}

/// How groups of one priority are ordered: upstream's two forms of discovery differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    /// By the name of the first APIService: the old form.
    ByService,
    /// By the group's name: the aggregated form.
    ByGroup,
}

/// All groups in the order discovery shows them.
pub(crate) fn groups<'a>(catalog: &'a Catalog, services: &[Arc<ApiService>], library: &Library, ties: Ties) -> Vec<ShownGroup<'a>> {
    let known: BTreeMap<&str, &ApiService> = services.iter().map(|service| (service.name(), service.as_ref())).collect();
    let mut groups: BTreeMap<String, ShownGroup<'a>> = BTreeMap::new();
    for group in catalog.groups() {
        for version in &group.versions {
            let service = known.get(name_of(&group.name, &version.version).as_str());
            if service.is_none_or(|service| service.backend.is_none()) {
                let priority = service.map_or_else(|| priority_of(&group.name, &version.version), |service| service.priority);
                add(&mut groups, (&group.name, &version.version), By::Us(version), priority);
            }
        }
    }
    for service in services.iter().filter(|service| service.backend.is_some()) {
        let by = By::Other(library.discovered(service.name()));
        add(&mut groups, (&service.group, &service.version), by, service.priority);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| (Reverse(a.priority), a.tie(ties)).cmp(&(Reverse(b.priority), b.tie(ties))));
    for group in &mut groups {
        let order = |a: &ShownVersion<'_>, b: &ShownVersion<'_>| {
            b.priority.cmp(&a.priority).then_with(|| versions::compare(&b.version, &a.version))
        };
        group.versions.sort_by(order);
    }
    groups
}

impl ShownGroup<'_> {
    fn tie(&self, ties: Ties) -> &str {
        if ties == Ties::ByService { &self.first } else { &self.name }
    }
}

fn add<'a>(groups: &mut BTreeMap<String, ShownGroup<'a>>, (group, version): (&str, &str), by: By<'a>, priority: Priority) {
    let new = || ShownGroup { name: group.to_owned(), versions: Vec::new(), priority: i64::MIN, first: String::new() };
    let entry = groups.entry(group.to_owned()).or_insert_with(new);
    let first = name_of(group, version);
    if (Reverse(priority.group), &first) < (Reverse(entry.priority), &entry.first) {
        (entry.priority, entry.first) = (priority.group, first);
    }
    entry.versions.push(ShownVersion { version: version.to_owned(), by, priority: priority.version });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Wiring;
    use crate::storage::memory::Memory;

    fn service(group: &str, version: &str, priority: (i64, i64), remote: bool) -> Arc<ApiService> {
        let mut object = serde_json::json!({
            "metadata": {"name": name_of(group, version)},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": priority.0, "versionPriority": priority.1},
        });
        if remote {
            object["spec"]["service"] = serde_json::json!({"namespace": "n", "name": "s"});
        }
        Arc::new(ApiService::read(apimachinery::Object::from_value(object).unwrap()).unwrap())
    }

    fn names(services: &[Arc<ApiService>], ties: Ties) -> Vec<String> {
        let catalog = Catalog::builtin(&Memory::new(), "/registry", &Wiring::default());
        let groups = groups(&catalog, services, &Library::default(), ties);
        let versions = |group: &ShownGroup<'_>| group.versions.iter().map(|v| v.version.clone()).collect::<Vec<_>>().join(",");
        groups.iter().map(|group| format!("{} {}", group.name, versions(group))).collect()
    }

    #[test]
    fn groups_come_by_priority_and_versions_too() {
        let all = names(&[], Ties::ByGroup);
        assert_eq!(&all[..4], ["apiregistration.k8s.io v1", " v1", "apps v1", "events.k8s.io v1"]);
        assert!(all.contains(&"autoscaling v2,v1".to_owned()));
        assert_eq!(all, names(&[], Ties::ByService));
        let changed = names(&[service("batch", "v1", (19000, 1), false)], Ties::ByGroup);
        assert_eq!(changed[1], "batch v1");
    }

    #[test]
    fn those_of_others_are_shown_among_ours() {
        let services = [
            service("z.io", "v1", (100, 5), true),
            service("a.io", "v2", (100, 5), true),
            service("z.io", "v1beta1", (100, 50), true),
            service("batch", "v2", (17400, 50), true),
        ];
        let shown = |ties| {
            let all = names(&services, ties);
            let last = all[all.len() - 2..].to_vec();
            (last, all.into_iter().find(|line| line.starts_with("batch")))
        };
        assert_eq!(shown(Ties::ByGroup).0, ["a.io v2", "z.io v1beta1,v1"]);
        assert_eq!(shown(Ties::ByService), (vec!["z.io v1beta1,v1".to_owned(), "a.io v2".to_owned()], Some("batch v2,v1".to_owned())));
    }

    #[test]
    fn whom_an_api_service_names_stands_in_for_this_server() {
        let catalog = Catalog::builtin(&Memory::new(), "/registry", &Wiring::default());
        let groups = groups(&catalog, &[service("batch", "v1", (17400, 15), true)], &Library::default(), Ties::ByGroup);
        let batch = groups.iter().find(|group| group.name == "batch").unwrap();
        assert!(matches!(batch.versions.as_slice(), [ShownVersion { by: By::Other(_), .. }]));
    }
}
