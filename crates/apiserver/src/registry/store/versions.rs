//! Objects in the other versions of their kind, for those who manage fields of them.

use std::fmt;

use apimachinery::{
    Object,
    apply::{InVersion, Versions},
    gvk::GroupVersionKind,
    status::Status,
};

use super::Hub;
use crate::registry::catalog::Served;

/// All versions of one served resource, among those that are served at all.
pub(crate) struct OtherVersions<'a> {
    /// Knows all versions.
    pub(crate) hub: &'a Hub,
    /// The version that objects come in.
    pub(crate) served: &'a Served,
}

impl fmt::Debug for OtherVersions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "other versions of {:?}", self.served.resource)
    }
}

impl Versions for OtherVersions<'_> {
    fn convert(&self, object: &Object, api_version: &str) -> InVersion {
        let own = &self.served.resource;
        let Ok(gvk) = GroupVersionKind::from_api_version(api_version, &own.kind) else { return InVersion::Unknown };
        let catalog = self.hub.catalog.load();
        let other = catalog.find(&gvk.group, &gvk.version, &own.plural);
        match other.filter(|other| other.resource.storage_prefix == own.storage_prefix) {
            Some(other) => match across(object.clone(), self.served, other) {
                Ok(object) => InVersion::Converted(object, (*other.schema).clone()),
                Err(_) => InVersion::Failed,
            },
            None => InVersion::Unknown,
        }
    }
}

/// An object of one version in another, by way of the stored one.
fn across(mut object: Object, from: &Served, to: &Served) -> Result<Object, Status> {
    if let Some(conversion) = &from.resource.conversion {
        object = conversion.to_stored(object)?;
    }
    object.set_gvk(&to.resource.stored);
    if let Some(conversion) = &to.resource.conversion {
        object = conversion.to_served(object)?;
    }
    object.set_gvk(&to.resource.gvk());
    Ok(object)
}
