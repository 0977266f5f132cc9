//! What API servers behind this one say that they serve: discovery and OpenAPI, as last fetched.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Value, json};

use super::service::ApiService;

/// One group and version in the form of aggregated discovery.
#[derive(Clone, Debug)]
pub(crate) struct Discovered {
    /// `apidiscovery.k8s.io APIVersionDiscovery` without its freshness; `None` before the first answer.
    pub(crate) entry: Option<Value>,
    /// Whether the last attempt succeeded.
    pub(crate) fresh: bool,
}

impl Discovered {
    /// What is known of a server that has not answered yet.
    pub(crate) const UNKNOWN: Self = Self { entry: None, fresh: false };

    /// As discovery shows it.
    pub(crate) fn shown(&self, version: &str) -> Value {
        let mut entry = self.entry.clone().unwrap_or_else(|| json!({"version": version}));
        entry["freshness"] = if self.fresh { "Current" } else { "Stale" }.into();
        entry
    }
}

/// The part of an OpenAPI document of version 2 that is about one group and version.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The server's own tag of the whole document, empty where it gives none.
    pub(super) etag: String,
    /// Changes with the part.
    pub(crate) hash: String,
    /// `paths` and `definitions`.
    pub(crate) part: Value,
}

#[derive(Clone, Debug)]
struct Documents {
    discovered: Discovered,
    /// Entries of the index of `/openapi/v3`.
    index: Vec<(String, Value)>,
    spec: Option<Arc<Spec>>,
}

/// The documents of every remote APIService, by its name.
#[derive(Default)]
pub(crate) struct Library(RwLock<BTreeMap<String, Documents>>);

impl Library {
    /// What an APIService's server serves.
    pub(crate) fn discovered(&self, name: &str) -> Discovered {
        self.0.read().get(name).map_or(Discovered::UNKNOWN, |documents| documents.discovered.clone())
    }

    /// All entries of indexes of `/openapi/v3`.
    pub(crate) fn index(&self) -> Vec<(String, Value)> {
        self.0.read().values().flat_map(|documents| documents.index.clone()).collect()
    }

    /// All parts of documents of version 2.
    pub(crate) fn specs(&self) -> Vec<Arc<Spec>> {
        self.0.read().values().filter_map(|documents| documents.spec.clone()).collect()
    }

    /// Whether a server has an OpenAPI document of version 3 at that path.
    pub(super) fn has_v3(&self, name: &str, path: &str) -> bool {
        self.0.read().get(name).is_some_and(|documents| documents.index.iter().any(|(known, _)| known == path))
    }

    /// The tag of the document whose part is known.
    pub(super) fn etag(&self, name: &str) -> Option<String> {
        self.0.read().get(name).and_then(|documents| Some(documents.spec.as_ref()?.etag.clone()))
    }

    pub(super) fn set_discovered(&self, name: &str, entry: Value) {
        self.edit(name, |documents| documents.discovered = Discovered { entry: Some(entry), fresh: true });
    }

    pub(super) fn set_index(&self, name: &str, index: Vec<(String, Value)>) {
        self.edit(name, |documents| documents.index = index);
    }

    pub(super) fn set_spec(&self, name: &str, spec: Spec) {
        self.edit(name, |documents| documents.spec = Some(Arc::new(spec)));
    }

    /// The server did not answer: what is known of it may be outdated.
    pub(super) fn mark_stale(&self, name: &str) {
        self.edit(name, |documents| documents.discovered.fresh = false);
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.write().remove(name);
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Documents)) {
        let unknown = || Documents { discovered: Discovered::UNKNOWN, index: Vec::new(), spec: None };
        change(self.0.write().entry(name.to_owned()).or_insert_with(unknown));
    }
}

/// The entry of a group and version in an `APIGroupDiscoveryList`.
pub(super) fn entry(list: &Value, service: &ApiService) -> Option<Value> {
    let groups = list.get("items")?.as_array()?.iter();
    let mut group = groups.filter(|group| group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default() == service.group);
    let versions = group.find_map(|group| group.get("versions")?.as_array())?;
    versions.iter().find(|entry| entry["version"] == service.version.as_str()).cloned()
}

/// The same of a server that knows only the old form: an `APIResourceList`.
pub(super) fn entry_of_resources(list: &Value, service: &ApiService) -> Option<Value> {
    let mut resources: Vec<Value> = Vec::new();
    let listed = list.get("resources")?.as_array()?;
    let text = |resource: &Value, field: &str| resource[field].as_str().unwrap_or_default().to_owned();
    let kind = |resource: &Value| json!({"group": text(resource, "group"), "version": text(resource, "version"), "kind": resource["kind"]});
    for resource in listed.iter().filter(|resource| !text(resource, "name").contains('/')) {
        let scope = if resource["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let mut shown = json!({
            "resource": resource["name"], "singularResource": text(resource, "singularName"), "scope": scope,
            "responseKind": kind(resource), "verbs": resource["verbs"],
        });
        for field in ["shortNames", "categories"].into_iter().filter(|field| resource[*field].is_array()) {
            shown[field] = resource[field].clone();
        }
        let prefix = format!("{}/", text(resource, "name"));
        let below = listed.iter().filter_map(|sub| {
            let name = text(sub, "name");
            let name = name.strip_prefix(&prefix)?;
            Some(json!({"subresource": name, "responseKind": kind(sub), "verbs": sub["verbs"]}))
        });
        let below: Vec<Value> = below.collect();
        if !below.is_empty() {
            shown["subresources"] = below.into();
        }
        resources.push(shown);
    }
    Some(json!({"version": service.version, "resources": resources}))
}

/// The entries of an index of `/openapi/v3` that are about one group and version. Others are this server's own business.
pub(super) fn index_entries(index: &Value, service: &ApiService) -> Vec<(String, Value)> {
    let path = service.path();
    let entry = index["paths"].get(path.trim_start_matches('/')).filter(|entry| entry["serverRelativeURL"].is_string());
    entry.map(|entry| (path.trim_start_matches('/').to_owned(), entry.clone())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;

    use super::*;

    fn service() -> ApiService {
        let spec = json!({"group": "g.example.com", "version": "v1", "service": {"name": "s", "namespace": "n"}});
        ApiService::read(Object::from_value(json!({"metadata": {"name": "v1.g.example.com"}, "spec": spec})).unwrap()).unwrap()
    }

    #[test]
    fn the_old_form_of_discovery_tells_the_same() {
        let list = json!({"resources": [
            {"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": true, "verbs": ["get"], "shortNames": ["th"]},
            {"name": "things/status", "kind": "Thing", "namespaced": true, "verbs": ["update"]},
        ]});
        let kind = json!({"group": "", "version": "", "kind": "Thing"});
        let wanted = json!({"version": "v1", "resources": [{
            "resource": "things", "singularResource": "thing", "scope": "Namespaced", "responseKind": kind, "verbs": ["get"],
            "shortNames": ["th"], "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["update"]}],
        }]});
        assert_eq!(entry_of_resources(&list, &service()), Some(wanted));
        assert_eq!(entry_of_resources(&json!({"kind": "Status"}), &service()), None);
    }

    #[test]
    fn a_server_tells_of_its_own_group_and_version_only() {
        let version = |version: &str| json!({"version": version, "resources": []});
        let list = json!({"items": [
            {"metadata": {"name": "apps"}, "versions": [version("v1")]},
            {"metadata": {"name": "g.example.com"}, "versions": [version("v2"), version("v1")]},
        ]});
        assert_eq!(entry(&list, &service()), Some(version("v1")));
        let url = |path: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=1")});
        let index = json!({"paths": {"apis/apps/v1": url("apis/apps/v1"), "apis/g.example.com/v1": url("apis/g.example.com/v1")}});
        let entries = index_entries(&index, &service());
        assert_eq!(entries, [("apis/g.example.com/v1".to_owned(), url("apis/g.example.com/v1"))]);
    }

    #[test]
    fn what_was_known_of_a_dead_server_is_shown_as_stale() {
        let library = Library::default();
        assert_eq!(library.discovered("x").shown("v1"), json!({"version": "v1", "freshness": "Stale"}));
        library.set_discovered("x", json!({"version": "v1", "resources": [1]}));
        assert_eq!(library.discovered("x").shown("v1")["freshness"], "Current");
        library.mark_stale("x");
        assert_eq!(library.discovered("x").shown("v1"), json!({"version": "v1", "resources": [1], "freshness": "Stale"}));
        library.forget("x");
        assert_eq!(library.discovered("x").shown("v1"), json!({"version": "v1", "freshness": "Stale"}));
    }
}
