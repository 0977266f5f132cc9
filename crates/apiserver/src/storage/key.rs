//! Keys: `/registry/<resource prefix>[/<namespace>]/<name>`, as kube-apiserver lays them out.

use std::cmp::Ordering;
use std::fmt;

/// Names one object of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// `metadata.name`.
    pub(crate) name: String,
}

impl Key {
    /// A namespaced object, or a cluster-scoped one when `namespace` is empty.
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// A cluster-scoped object.
    pub(crate) fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        self.namespace.bytes().chain(slash.bytes()).chain(self.name.bytes())
    }

    /// Reads what [`Key`]'s `Display` wrote.
    pub(crate) fn parse(path: &str) -> Self {
        match path.split_once('/') {
            Some((namespace, name)) => Self::new(namespace, name),
            None => Self::cluster(path),
        }
    }
}

/// Keys are ordered as the store orders them: by their bytes, so `a-b/x` comes before `a/x`.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.namespace == other.namespace {
            return self.name.cmp(&other.name);
        }
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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
pub(crate) struct Scope {
    /// `None` = all namespaces, and always for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
}

impl Scope {
    /// Every object.
    pub(crate) fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace.
    pub(crate) fn namespace(name: impl Into<String>) -> Self {
        Self { namespace: Some(name.into()) }
    }

    /// Whether the object lies within.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
    }

    /// The key prefix, ending in a slash, so that namespace `a` does not cover `ab`.
    pub(crate) fn prefix(&self, collection_prefix: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{collection_prefix}/{namespace}/"),
            None => format!("{collection_prefix}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_the_store_orders_them() {
        let mut keys = [Key::new("a", "x"), Key::new("a-b", "x"), Key::new("a", "w"), Key::new("b", "a")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a-b/x", "a/w", "a/x", "b/a"]);
    }

    #[test]
    fn a_namespace_does_not_cover_one_it_is_a_prefix_of() {
        assert_eq!(Scope::namespace("a").prefix("/registry/pods"), "/registry/pods/a/");
        assert!(!Scope::namespace("a").covers(&Key::new("ab", "x")));
    }
}
