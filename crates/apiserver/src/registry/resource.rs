//! The description of one resource, from which everything generic follows.

use std::sync::Arc;

use apimachinery::{
    Object,
    gvk::{GroupKind, GroupResource, GroupVersionKind},
    status::Status,
};

use super::{Connect, Plain, Strategy, Subresource, subresource::ScalePaths};
use crate::schema::Written;

/// Where the objects of a resource come from.
#[derive(Clone)]
pub(crate) enum Backing {
    /// The store.
    Stored,
    /// Computed on each request (access reviews, bindings, component statuses).
    Call(Arc<dyn Connect>),
}

/// Turns the stored version of an object into this resource's version and back. Absent: only `apiVersion` differs.
pub(crate) trait Conversion: Send + Sync {
    /// From the stored version.
    fn to_served(&self, obj: Object) -> Result<Object, Status>;
    /// To the stored version.
    fn to_stored(&self, obj: Object) -> Result<Object, Status>;
}

/// One resource in one version.
#[derive(Clone)]
pub(crate) struct Resource {
    /// API group, empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Kind, e.g. `Deployment`.
    pub(crate) kind: String,
    /// Kind of a list, e.g. `DeploymentList`.
    pub(crate) list_kind: String,
    /// Path segment and RBAC name, e.g. `deployments`.
    pub(crate) plural: String,
    /// Singular name, e.g. `deployment`.
    pub(crate) singular: String,
    /// e.g. `deploy`.
    pub(crate) short_names: Vec<String>,
    /// e.g. `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub(crate) namespaced: bool,
    /// Verbs in discovery order.
    pub(crate) verbs: Vec<&'static str>,
    /// Subresources by name.
    pub(crate) subresources: Vec<Subresource>,
    /// Name of the schema definition, e.g. `io.k8s.api.apps.v1.Deployment`.
    pub(crate) definition: String,
    /// The group and version objects are stored in.
    pub(crate) stored: GroupVersionKind,
    /// Path below `--etcd-prefix` as kube-apiserver lays it out, e.g. `services/specs`.
    pub(crate) storage_prefix: String,
    /// Conversion between the stored and this version.
    pub(crate) conversion: Option<Arc<dyn Conversion>>,
    /// The kind's own rules.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// Where objects come from.
    pub(crate) backing: Backing,
    /// The schema as its author wrote it, of a custom resource.
    pub(crate) custom_schema: Option<Arc<Written>>,
    /// Whether deleting answers the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// Text of the deprecation warning of this version, if any.
    pub(crate) deprecation: Option<String>,
    /// Whether its definition is being deleted: discovery no longer shows the verbs that write.
    pub(crate) terminating: bool,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.plural, self.version, self.group)
    }
}

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A namespaced resource: kind, plural, definition package such as `io.k8s.api.apps`.
pub(crate) fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    Resource::new(group, version, kind, plural, true)
}

/// A cluster-scoped resource.
pub(crate) fn cluster(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    Resource::new(group, version, kind, plural, false)
}

impl Resource {
    /// A stored resource with all verbs and no rules of its own.
    pub(crate) fn new(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            verbs: ALL_VERBS.to_vec(),
            subresources: Vec::new(),
            definition: definition(group, version, kind),
            stored: GroupVersionKind::new(group, version, kind),
            storage_prefix: plural.into(),
            conversion: None,
            strategy: Arc::new(Plain),
            backing: Backing::Stored,
            custom_schema: None,
            returns_deleted: false,
            deprecation: None,
            terminating: false,
        }
    }

    /// Short names, as kubectl accepts them.
    pub(crate) fn short(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|n| (*n).to_owned()).collect();
        self
    }

    /// A category, e.g. `all`.
    pub(crate) fn category(mut self, name: &str) -> Self {
        self.categories.push(name.to_owned());
        self
    }

    /// The kind's rules.
    pub(crate) fn strategy(mut self, strategy: impl Strategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// A subresource.
    pub(crate) fn sub(mut self, subresource: Subresource) -> Self {
        self.subresources.push(subresource);
        self.subresources.sort_by_key(|s| s.name);
        self
    }

    /// A status subresource.
    pub(crate) fn status(self) -> Self {
        self.sub(Subresource::status())
    }

    /// A scale subresource over spec.replicas, status.replicas and spec.selector.
    pub(crate) fn scale(self) -> Self {
        self.sub(Subresource::scale(ScalePaths::default()))
    }

    /// All verbs but this one.
    pub(crate) fn without(mut self, verb: &str) -> Self {
        self.verbs.retain(|v| *v != verb);
        self
    }

    /// A resource only the server itself uses, through the loopback: without verbs it is not shown in discovery, and
    /// refused to requests from outside.
    pub(crate) fn internal(mut self) -> Self {
        self.verbs = Vec::new();
        self
    }

    /// The storage prefix where it is not the plural name.
    pub(crate) fn stored_under(mut self, prefix: &str) -> Self {
        self.storage_prefix = prefix.into();
        self
    }

    /// The stored group and version where it is another than the served one.
    pub(crate) fn stored_as(mut self, group: &str, version: &str, conversion: impl Conversion + 'static) -> Self {
        self.stored = GroupVersionKind::new(group, version, &self.kind);
        self.conversion = Some(Arc::new(conversion));
        self
    }

    /// Objects are computed, not stored.
    pub(crate) fn computed(mut self, verbs: &[&'static str], call: impl Connect + 'static) -> Self {
        self.verbs = verbs.to_vec();
        self.backing = Backing::Call(Arc::new(call));
        self
    }

    /// Deleting answers the object instead of a Status.
    pub(crate) fn returns_deleted(mut self) -> Self {
        self.returns_deleted = true;
        self
    }

    /// Every answer carries this warning.
    pub(crate) fn deprecated(mut self, warning: &str) -> Self {
        self.deprecation = Some(warning.to_owned());
        self
    }

    /// `apps/v1`, `v1`.
    pub(crate) fn api_version(&self) -> String {
        join(&self.group, &self.version)
    }

    /// Group, version, kind.
    pub(crate) fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, &self.version, &self.kind)
    }

    /// Group and resource, as error texts name it.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Group and kind, as validation errors name it.
    pub(crate) fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// Whether it is defined by a CustomResourceDefinition.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom_schema.is_some()
    }

    /// The verbs as discovery shows them.
    pub(crate) fn shown_verbs(&self) -> Vec<&'static str> {
        let writes = |verb: &str| matches!(verb, "create" | "patch" | "update");
        self.verbs.iter().copied().filter(|verb| !(self.terminating && writes(verb))).collect()
    }

    /// Whether the resource itself serves the verb.
    pub(crate) fn serves(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// The subresource of that name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Whether only the server itself may use it; see [`Resource::internal`].
    pub(crate) fn is_internal(&self) -> bool {
        self.verbs.is_empty()
    }

    /// The subresources that clients may use.
    pub(crate) fn shown_subresources(&self) -> impl Iterator<Item = &Subresource> {
        self.subresources.iter().filter(|sub| !sub.verbs.is_empty())
    }

    /// Whether `/status` is written apart from the object.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The OpenAPI name of a built-in kind's definition.
pub(crate) fn definition(group: &str, version: &str, kind: &str) -> String {
    format!("{}.{version}.{kind}", definition_package(group))
}

/// The OpenAPI package of a built-in group's definitions.
fn definition_package(group: &str) -> String {
    match group {
        "" => "io.k8s.api.core".to_owned(),
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
        "flowcontrol.apiserver.k8s.io" => "io.k8s.api.flowcontrol".to_owned(),
        _ => format!("io.k8s.api.{}", group.split('.').next().unwrap_or(group)),
    }
}
