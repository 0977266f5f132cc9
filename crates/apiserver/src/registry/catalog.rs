//! What is served right now: the built-in resources, and custom ones as they come and go.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{Object, schema::Schema};

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
            catalog.add(Served { resource: Arc::new(resource), schema, storage });
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
        let group = match self.groups.iter().position(|g| g.name == resource.group) {
            Some(at) => &mut self.groups[at],
            None => {
                self.groups.push(GroupEntry { name: resource.group.clone(), versions: Vec::new() });
                let last = self.groups.len() - 1;
                &mut self.groups[last]
            }
        };
        match group.versions.iter_mut().find(|v| v.version == resource.version) {
            Some(version) => version.resources.push(served.clone()),
            None => group.versions.push(VersionEntry { version: resource.version.clone(), resources: vec![served.clone()] }),
        }
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
