//! What is served right now: the built-in resources, and custom ones as they come and go.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{Object, schema::Schema, versions};
use tokio_util::sync::CancellationToken;

use super::{Backing, Resource, Wiring, builtin_resources};
use crate::{
    schema,
    storage::{Backend, Collection, Storage},
};

/// A resource with what serves it.
#[derive(Clone)]
pub(crate) struct Served {
    /// Its description.
    pub(crate) resource: Arc<Resource>,
    /// Its schema.
    pub(crate) schema: Schema,
    /// Where its objects lie; absent for computed resources.
    pub(crate) storage: Option<Arc<dyn Storage>>,
    /// Cancelled when it is served no more, or otherwise than before: watches end then.
    pub(crate) retired: CancellationToken,
}

/// One version of a group.
#[derive(Clone)]
pub(crate) struct VersionEntry {
    /// e.g. `v1`.
    pub(crate) version: String,
    /// In table order.
    pub(crate) resources: Vec<Arc<Served>>,
}

/// One API group as discovery shows it.
#[derive(Clone)]
pub(crate) struct GroupEntry {
    /// Empty for core.
    pub(crate) name: String,
    /// The preferred one first.
    pub(crate) versions: Vec<VersionEntry>,
    /// Whether all of it is custom resources.
    pub(crate) custom: bool,
}

/// An immutable picture of everything served; replaced as a whole when custom resources change.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    groups: Vec<GroupEntry>,
    index: BTreeMap<(String, String, String), Arc<Served>>,
}

impl Catalog {
    /// The built-in resources over `backend`, keys below `prefix` (`/registry`).
    pub(crate) fn builtin(backend: &dyn Backend, prefix: &str, wiring: &Wiring) -> Self {
        let mut catalog = Self::default();
        // Resources stored in one place (events of both groups) share a storage and so a watch cache.
        let mut storages: BTreeMap<String, Arc<dyn Storage>> = BTreeMap::new();
        for resource in builtin_resources(wiring) {
            let place = format!("{prefix}/{}", resource.storage_prefix);
            let storage = match resource.backing {
                Backing::Stored => Some(storages.entry(place.clone()).or_insert_with(|| open(backend, &resource, place)).clone()),
                Backing::Call(_) => None,
            };
            let schema = Schema::clone(&schema::builtin(&resource.definition));
            catalog.add(Served { resource: Arc::new(resource), schema, storage, retired: CancellationToken::new() });
        }
        catalog
    }

    /// Adds a resource to its group and version, making both where needed. An internal one is found, but not listed.
    pub(crate) fn add(&mut self, served: Served) {
        let served = Arc::new(served);
        let resource = &served.resource;
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.index.insert(key, served.clone());
        if resource.is_internal() {
            return;
        }
        let group = self.group_of(resource);
        match group.versions.iter_mut().find(|v| v.version == resource.version) {
            Some(version) => version.resources.push(served.clone()),
            None => {
                group.versions.push(VersionEntry { version: resource.version.clone(), resources: vec![served.clone()] });
                if group.custom {
                    group.versions.sort_by(|a, b| versions::compare(&b.version, &a.version));
                }
            }
        }
    }

    /// The group of a resource; those of custom resources only come last, by name.
    fn group_of(&mut self, resource: &Resource) -> &mut GroupEntry {
        let at = self.groups.iter().position(|g| g.name == resource.group).unwrap_or_else(|| {
            let custom = resource.is_custom();
            let after = |g: &GroupEntry| custom && g.custom && g.name > resource.group;
            let at = self.groups.iter().position(after).unwrap_or(self.groups.len());
            self.groups.insert(at, GroupEntry { name: resource.group.clone(), versions: Vec::new(), custom });
            at
        });
        &mut self.groups[at]
    }

    /// Takes a custom resource out, in all its versions, and what only it needed.
    pub(crate) fn remove_custom(&mut self, group: &str, plural: &str) {
        let is_it = |resource: &Resource| resource.is_custom() && resource.group == group && resource.plural == plural;
        self.index.retain(|_, served| !is_it(&served.resource));
        for entry in self.groups.iter_mut().filter(|entry| entry.name == group) {
            for version in &mut entry.versions {
                version.resources.retain(|served| !is_it(&served.resource));
            }
            entry.versions.retain(|version| !version.resources.is_empty());
        }
        self.groups.retain(|entry| !entry.versions.is_empty());
    }

    /// The resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.index.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// A group, the core one being empty.
    pub(crate) fn group(&self, name: &str) -> Option<&GroupEntry> {
        self.groups.iter().find(|g| g.name == name)
    }

    /// All groups in discovery order.
    pub(crate) fn groups(&self) -> &[GroupEntry] {
        &self.groups
    }

    /// Whether a resource of that group is built in.
    pub(crate) fn is_builtin(&self, group: &str, plural: &str) -> bool {
        self.index.iter().any(|((g, _, p), served)| g == group && p == plural && !served.resource.is_custom())
    }
}

impl GroupEntry {
    /// One of its versions.
    pub(crate) fn version(&self, name: &str) -> Option<&VersionEntry> {
        self.versions.iter().find(|v| v.version == name)
    }
}

impl Served {
    /// Takes the status from `old`, or makes it what an empty object has.
    pub(crate) fn reset_status(&self, obj: &mut Object, old: Option<&Object>) {
        obj.0.remove("status");
        let kept = match old {
            Some(old) => old.0.get("status").cloned(),
            None => self.schema.zero().get("status").cloned(),
        };
        if let Some(status) = kept {
            obj.0.insert("status".into(), status);
        }
    }
}

/// Opens the storage of a resource.
pub(crate) fn open(backend: &dyn Backend, resource: &Resource, place: String) -> Arc<dyn Storage> {
    let strategy = resource.strategy.clone();
    let collection = Collection::new(resource.group_resource(), place);
    backend.open(collection.with_fields(Arc::new(move |object| strategy.selectable_fields(object))))
}
