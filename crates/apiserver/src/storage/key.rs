//! Keys: `/registry/<resource prefix>[/<namespace>]/<name>`, as kube-apiserver lays them out.

use std::fmt;

use apimachinery::gvk::GroupResource;

/// Root of everything stored (`--etcd-prefix`).
pub const ROOT: &str = "/registry";

/// Resources that lie elsewhere than under their plural: kept from Kubernetes' early days.
const SPECIAL: &[(&str, &str, &str)] = &[
    ("", "endpoints", "services/endpoints"),
    ("", "nodes", "minions"),
    ("", "replicationcontrollers", "controllers"),
    ("", "services", "services/specs"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
    ("events.k8s.io", "events", "events"),
    ("networking.k8s.io", "ingresses", "ingress"),
];

/// The key prefix of a built-in resource, as `/registry/services/specs`.
pub fn prefix(resource: &GroupResource) -> String {
    let special = SPECIAL.iter().find(|(group, name, _)| *group == resource.group && *name == resource.resource);
    let path = special.map_or(resource.resource.as_str(), |(_, _, path)| path);
    format!("{ROOT}/{path}")
}

/// The key prefix of a custom resource, as `/registry/example.com/widgets`.
pub fn custom_prefix(resource: &GroupResource) -> String {
    format!("{ROOT}/{}/{}", resource.group, resource.resource)
}

/// Names one object of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// A namespaced object, or a cluster-scoped one when `namespace` is empty.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// A cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    /// Reads what [`Key`]'s `Display` wrote.
    pub(crate) fn parse(path: &str) -> Self {
        match path.split_once('/') {
            Some((namespace, name)) => Self::new(namespace, name),
            None => Self::cluster(path),
        }
    }
}

/// `<namespace>/<name>`, or `<name>`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Which objects of a resource a list or watch covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `None` = all namespaces, and always for cluster-scoped resources.
    pub namespace: Option<String>,
}

impl Scope {
    /// Every object.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace.
    pub fn namespace(name: impl Into<String>) -> Self {
        Self { namespace: Some(name.into()) }
    }

    /// Whether the object lies within.
    pub fn covers(&self, key: &Key) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
    }

    /// The key prefix, ending in a slash, so that namespace `a` does not cover `ab`.
    pub(crate) fn prefix(&self, resource_prefix: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{resource_prefix}/{namespace}/"),
            None => format!("{resource_prefix}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lays_keys_out_as_kube_apiserver_does() {
        let at = |group: &str, resource: &str| prefix(&GroupResource { group: group.into(), resource: resource.into() });
        assert_eq!(at("", "pods"), "/registry/pods");
        assert_eq!(at("", "nodes"), "/registry/minions");
        assert_eq!(at("", "services"), "/registry/services/specs");
        assert_eq!(at("apps", "deployments"), "/registry/deployments");
    }

    #[test]
    fn a_namespace_does_not_cover_one_it_is_a_prefix_of() {
        assert_eq!(Scope::namespace("a").prefix("/registry/pods"), "/registry/pods/a/");
        assert!(!Scope::namespace("a").covers(&Key::new("ab", "x")));
    }
}
