//! What is served right now: the built-in resources, and custom ones as they come and go.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use apimachinery::{Object, schema::Schema, versions};
use rpds::RedBlackTreeMapSync;
use tokio_util::sync::CancellationToken;

use super::{Backing, Resource, Wiring, builtin_resources};
use crate::{
    lazy::Lazy,
    openapi::Api,
    schema,
    storage::{Backend, Collection, Storage},
};

/// A resource with what serves it.
#[derive(Clone)]
pub(crate) struct Served {
    /// Its description.
    pub(crate) resource: Arc<Resource>,
    /// Its schema.
    pub(crate) schema: Lazy<Schema>,
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
    /// What OpenAPI documents need of them, once somebody has asked.
    pub(crate) described: OnceLock<Api>,
}

impl VersionEntry {
    fn new(version: &str) -> Self {
        Self { version: version.to_owned(), resources: Vec::new(), described: OnceLock::new() }
    }

    /// The resources, to change them.
    fn resources_mut(&mut self) -> &mut Vec<Arc<Served>> {
        self.described = OnceLock::new();
        &mut self.resources
    }
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

/// An immutable picture of everything served; replaced as a whole when custom resources change. Clones share what does not change:
/// there may be thousands of resources, and each that comes makes a new picture.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    groups: Vec<Arc<GroupEntry>>,
    index: RedBlackTreeMapSync<Key, Arc<Served>>,
}

/// Group, version, plural name.
type Key = (String, String, String);

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
            let schema = Schema::clone(&schema::builtin(&resource.definition)).into();
            catalog.add(Served { resource: Arc::new(resource), schema, storage, retired: CancellationToken::new() });
        }
        catalog
    }

    /// Adds a resource to its group and version, making both where needed. An internal one is found, but not listed.
    pub(crate) fn add(&mut self, served: Served) {
        let served = Arc::new(served);
        let resource = &served.resource;
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.index.insert_mut(key, served.clone());
        if resource.is_internal() {
            return;
        }
        let group = self.group_of(resource);
        match group.versions.iter_mut().find(|v| v.version == resource.version) {
            Some(version) => version.resources_mut().push(served.clone()),
            None => {
                let mut version = VersionEntry::new(&resource.version);
                version.resources_mut().push(served.clone());
                group.versions.push(version);
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
            let after = |g: &Arc<GroupEntry>| custom && g.custom && g.name > resource.group;
            let at = self.groups.iter().position(after).unwrap_or(self.groups.len());
            self.groups.insert(at, Arc::new(GroupEntry { name: resource.group.clone(), versions: Vec::new(), custom }));
            at
        });
        Arc::make_mut(&mut self.groups[at])
    }

    /// Takes a custom resource out, in all its versions, and what only it needed.
    pub(crate) fn remove_custom(&mut self, group: &str, plural: &str) {
        let custom = self.versions_of(group, plural).filter(|(_, served)| served.resource.is_custom());
        let gone: Vec<_> = custom.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.index.remove_mut(&key);
        }
        let is_it = |resource: &Resource| resource.is_custom() && resource.group == group && resource.plural == plural;
        for entry in self.groups.iter_mut().filter(|entry| entry.name == group).map(Arc::make_mut) {
            for version in &mut entry.versions {
                version.resources_mut().retain(|served| !is_it(&served.resource));
            }
            entry.versions.retain(|version| !version.resources.is_empty());
        }
        self.groups.retain(|entry| !entry.versions.is_empty());
    }

    /// A resource in all its versions, with their keys: those of a group lie together.
    fn versions_of(&self, group: &str, plural: &str) -> impl Iterator<Item = (&Key, &Arc<Served>)> {
        let within = self.index.range((group.to_owned(), String::new(), String::new())..).take_while(move |((of, ..), _)| of == group);
        within.filter(move |((.., name), _)| name == plural)
    }

    /// The resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.index.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// A group, the core one being empty.
    pub(crate) fn group(&self, name: &str) -> Option<&GroupEntry> {
        self.groups.iter().find(|g| g.name == name).map(|group| &**group)
    }

    /// All groups in discovery order.
    pub(crate) fn groups(&self) -> &[Arc<GroupEntry>] {
        &self.groups
    }

    /// Whether a resource of that group is built in.
    pub(crate) fn is_builtin(&self, group: &str, plural: &str) -> bool {
        self.versions_of(group, plural).any(|(_, served)| !served.resource.is_custom())
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
