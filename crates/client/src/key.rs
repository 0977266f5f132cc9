//! The name under which an object travels through caches and queues.

use std::fmt;

use kube::core::ObjectMeta;

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds.
///
/// Displays as upstream's cache keys do: `namespace/name`, or `name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// The key of the object `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self::new("", name)
    }

    /// The key of the object with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn displays_as_upstream_cache_keys() {
        assert_eq!(Key::new("default", "web").to_string(), "default/web");
        assert_eq!(Key::cluster("node-1").to_string(), "node-1");
    }
}
