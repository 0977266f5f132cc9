//! Label and field selection over stored objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use apimachinery::Object;
use apimachinery::selector::{Lookup, field, label};

use super::{Collection, Entry};

/// What selectors look at, computed once when an object enters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// `metadata.labels`.
    pub(crate) labels: BTreeMap<String, String>,
    /// Selectable fields by path, but for name and namespace, which the key holds.
    pub(crate) fields: Vec<(Cow<'static, str>, String)>,
}

impl Attributes {
    /// The attributes of `object` under its collection's rules.
    pub(crate) fn of(collection: &Collection, object: &Object) -> Self {
        Self { labels: object.labels(), fields: (collection.fields)(object) }
    }
}

/// Label and field selectors together; the default selects everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predicate {
    /// `labelSelector`.
    pub(crate) labels: label::Selector,
    /// `fieldSelector`, already checked to name only fields the resource offers.
    pub(crate) fields: field::Selector,
}

impl Predicate {
    /// Whether everything matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object matches.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.is_everything() || (self.labels.matches(&entry.attributes().labels) && self.fields.matches(&Fields(entry)))
    }
}

/// An object's fields, as selectors look at them.
struct Fields<'a>(&'a Entry);

impl Lookup for Fields<'_> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.0.field(name)
    }
}
