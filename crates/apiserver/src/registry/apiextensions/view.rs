//! A CustomResourceDefinition, read: what the strategy, the catalog and the server's own loops ask of one.

use apimachinery::Object;
use serde_json::Value;

static NULL: Value = Value::Null;

/// The finalizer that holds a definition until its instances are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One definition.
#[derive(Clone, Copy)]
pub(crate) struct Definition<'a>(pub(crate) &'a Object);

impl<'a> Definition<'a> {
    /// `spec`.
    pub(crate) fn spec(self) -> &'a Value {
        self.0.0.get("spec").unwrap_or(&NULL)
    }

    /// `status`.
    pub(crate) fn status(self) -> &'a Value {
        self.0.0.get("status").unwrap_or(&NULL)
    }

    /// The group of the resource.
    pub(crate) fn group(self) -> &'a str {
        text(self.spec(), "group")
    }

    /// The path segment of the resource: like the group it never changes.
    pub(crate) fn plural(self) -> &'a str {
        text(self.names(), "plural")
    }

    /// The names asked for.
    pub(crate) fn names(self) -> &'a Value {
        self.spec().get("names").unwrap_or(&NULL)
    }

    /// The names that are served.
    pub(crate) fn accepted(self) -> &'a Value {
        self.status().get("acceptedNames").unwrap_or(&NULL)
    }

    /// Whether objects live in namespaces.
    pub(crate) fn is_namespaced(self) -> bool {
        text(self.spec(), "scope") == "Namespaced"
    }

    /// All versions.
    pub(crate) fn versions(self) -> &'a [Value] {
        self.spec().get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The name of the version that is stored.
    pub(crate) fn storage_version(self) -> &'a str {
        self.versions().iter().find(|version| flag(version, "storage")).map(|version| text(version, "name")).unwrap_or_default()
    }

    /// The versions objects may be stored in.
    pub(crate) fn stored_versions(self) -> Vec<&'a str> {
        texts(self.status(), "storedVersions")
    }

    /// Whether versions are converted by a webhook.
    pub(crate) fn is_converted_by_webhook(self) -> bool {
        self.spec().pointer("/conversion/strategy").and_then(Value::as_str) == Some("Webhook")
    }

    /// A condition of the status.
    pub(crate) fn condition(self, kind: &str) -> Option<&'a Value> {
        self.status().get("conditions")?.as_array()?.iter().find(|condition| text(condition, "type") == kind)
    }

    /// Whether a condition is True.
    pub(crate) fn is(self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| text(condition, "status") == "True")
    }

    /// Whether instances are served: names count as soon as they are accepted, so that clients that see them established
    /// never come too early.
    pub(crate) fn is_served(self) -> bool {
        self.is("NamesAccepted") || self.is("Established")
    }
}

/// The text under a key, or "".
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list under a key.
pub(crate) fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether the value under a key is true.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}
