//! Label and field selection over stored objects.

use std::collections::BTreeMap;

use apimachinery::Object;
use apimachinery::selector::{field, label};

use super::{Key, Resource};

/// What selectors look at, computed once when an object enters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Selectable fields by path.
    pub fields: BTreeMap<String, String>,
}

impl Attributes {
    /// The attributes of `object` under its resource's rules.
    pub fn of(resource: &Resource, key: &Key, object: &Object) -> Self {
        let mut fields: BTreeMap<String, String> = (resource.fields)(object).into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
        fields.insert("metadata.name".to_owned(), key.name.clone());
        if resource.namespaced {
            fields.insert("metadata.namespace".to_owned(), key.namespace.clone());
        }
        let labels = object.pointer("/metadata/labels").and_then(|labels| labels.as_object());
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        Self { labels, fields }
    }
}

/// Label and field selectors together; the default selects everything.
#[derive(Clone, Debug, Default)]
pub struct Predicate {
    /// `labelSelector`.
    pub labels: label::Selector,
    /// `fieldSelector`, already checked to name only fields the resource offers.
    pub fields: field::Selector,
}

impl Predicate {
    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object matches.
    pub fn matches(&self, attributes: &Attributes) -> bool {
        self.labels.matches(&attributes.labels) && self.fields.matches(&attributes.fields)
    }
}
