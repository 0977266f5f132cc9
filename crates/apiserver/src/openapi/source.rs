//! What documents need, out of the registry.

use super::{Item, Sub};
use crate::registry::{Resource, Subresource};

impl From<&Resource> for Item {
    fn from(resource: &Resource) -> Self {
        Self {
            plural: resource.plural.clone(),
            gvk: resource.gvk(),
            definition: resource.definition.clone(),
            namespaced: resource.namespaced,
            verbs: resource
                .verbs
                .iter()
                .map(|verb| (*verb).to_owned())
                .collect(),
            subresources: resource.shown_subresources().map(Sub::from).collect(),
            custom: None,
        }
    }
}

impl From<&Subresource> for Sub {
    fn from(sub: &Subresource) -> Self {
        Self {
            name: sub.name.into(),
            verbs: sub.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            gvk: sub.kind.clone(),
        }
    }
}
