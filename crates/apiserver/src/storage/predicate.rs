//! Label and field selection over stored objects.

use std::collections::BTreeMap;

use apimachinery::Object;
use apimachinery::selector::{field, label};

use super::{Key, Collection};

/// What selectors look at, computed once when an object enters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// `metadata.labels`.
    pub(crate) labels: BTreeMap<String, String>,
    /// Selectable fields by path.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Attributes {
    /// The attributes of `object` under its collection's rules.
    pub(crate) fn of(collection: &Collection, key: &Key, object: &Object) -> Self {
        let mut fields: BTreeMap<String, String> = (collection.fields)(object).into_iter().map(|(path, value)| (path.into_owned(), value)).collect();
        fields.insert("metadata.name".to_owned(), key.name.clone());
        if collection.namespaced {
            fields.insert("metadata.namespace".to_owned(), key.namespace.clone());
        }
        Self { labels: object.labels(), fields }
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
    pub(crate) fn matches(&self, attributes: &Attributes) -> bool {
        self.labels.matches(&attributes.labels) && self.fields.matches(&attributes.fields)
    }
}
