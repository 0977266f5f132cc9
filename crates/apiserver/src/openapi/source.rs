//! What documents need, out of the registry.

use super::{Api, Item, Sub};
use crate::registry::{Resource, Subresource};

impl Api {
    /// Gathers resources by their group and version, in the order they come.
    pub(crate) fn gather<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Vec<Self> {
        let mut apis: Vec<Self> = Vec::new();
        for resource in resources {
            let place = apis
                .iter()
                .position(|api| api.group == resource.group && api.version == resource.version);
            let place = place.unwrap_or_else(|| {
                apis.push(Self {
                    group: resource.group.clone(),
                    version: resource.version.clone(),
                    resources: Vec::new(),
                });
                apis.len() - 1
            });
            apis[place].resources.push(Item::from(resource));
        }
        apis
    }
}

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
