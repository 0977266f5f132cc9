//! Groups, versions, kinds and resources, and their text forms.

use std::fmt;
use std::str::FromStr;

/// An API group and version, written `apps/v1`, or just `v1` for the core group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Group name; empty for the core group.
    pub group: String,
    /// Version name such as `v1` or `v2beta1`.
    pub version: String,
}

/// A text that is no group/version; the message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseError(pub String);

impl GroupVersion {
    /// A group and version from their parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`. The empty string and `/` give the empty group and version, as upstream.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() || text == "/" {
            return Ok(Self::default());
        }
        match text.split('/').collect::<Vec<_>>()[..] {
            [version] => Ok(Self::new("", version)),
            [group, version] => Ok(Self::new(group, version)),
            _ => Err(ParseError(text.into())),
        }
    }

    /// The kind `kind` of this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, &self.version, kind)
    }

    /// The resource `resource` (lower-case plural) of this group and version.
    pub fn with_resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, resource)
    }
}

impl FromStr for GroupVersion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// A kind within a group and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// Group name; empty for the core group.
    pub group: String,
    /// Version name.
    pub version: String,
    /// Kind in CamelCase.
    pub kind: String,
}

impl GroupVersionKind {
    /// A kind from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind an object names in its `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, ParseError> {
        Ok(GroupVersion::parse(api_version)?.with_kind(kind))
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// The `apiVersion` text of this kind.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource (the plural in a URL) within a group and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// Group name; empty for the core group.
    pub group: String,
    /// Version name.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
}

impl GroupVersionResource {
    /// A resource from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// A kind whatever its version, written `Deployment.apps`, or `Pod` in the core group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// Group name; empty for the core group.
    pub group: String,
    /// Kind in CamelCase.
    pub kind: String,
}

impl GroupKind {
    /// A kind from its parts.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// This kind in `version`.
    pub fn with_version(&self, version: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, version, &self.kind)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

/// A resource whatever its version, written `deployments.apps`, or `pods` in the core group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// Group name; empty for the core group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
}

impl GroupResource {
    /// A resource from its parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Parses `resource.group`; what follows the first dot is the group.
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((resource, group)) => Self::new(group, resource),
            None => Self::new("", text),
        }
    }

    /// This resource in `version`.
    pub fn with_version(&self, version: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, version, &self.resource)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_version_round_trips() {
        for text in ["v1", "apps/v1", "rbac.authorization.k8s.io/v1"] {
            assert_eq!(GroupVersion::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn two_slashes_are_no_group_version() {
        let error = GroupVersion::parse("a/b/c").unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
    }

    #[test]
    fn core_group_is_not_written() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(GroupKind::new("apps", "Deployment").to_string(), "Deployment.apps");
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
    }
}
