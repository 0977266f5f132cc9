//! Which object is meant: what an owner reference says of it, and where it lives.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{api::ObjectMeta, core::ApiResource};

/// How to address an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Identity {
    // In the order in which other identities of an owner are tried: kinds first, so that all of one kind come together.
    pub(super) kind: String,
    pub(super) api_version: String,
    /// Empty for cluster-scoped objects; for an owner known by reference only, the namespace of the dependent.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Identity {
    /// The object with `meta`, seen among those of `resource`.
    pub(super) fn observed(resource: &ApiResource, meta: &ObjectMeta) -> Self {
        Self {
            kind: resource.kind.clone(),
            api_version: resource.api_version.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// The owner that a dependent in `namespace` refers to.
    pub(super) fn referred(owner: &OwnerReference, namespace: &str) -> Self {
        Self {
            kind: owner.kind.clone(),
            api_version: owner.api_version.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }

    /// Whether the reference agrees in all but the namespace, of which it says nothing.
    pub(super) fn agrees(&self, owner: &OwnerReference) -> bool {
        (&self.kind, &self.api_version, &self.name, &self.uid) == (&owner.kind, &owner.api_version, &owner.name, &owner.uid)
    }

    /// Whether an object in `namespace` may be owned by this one: cluster-scoped objects own anything.
    pub(super) fn reaches(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || self.namespace == namespace
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, api_version, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}
