//! From the stored version of a custom resource to the served one and back.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{Object, gvk::GroupVersionKind, schema::Schema, status::Status};

use crate::{lazy::Lazy, registry::Conversion};

/// The schemas of all versions, by version.
pub(crate) struct Schemas(BTreeMap<String, Lazy<Schema>>);

impl Schemas {
    pub(super) fn new(schemas: BTreeMap<String, Lazy<Schema>>) -> Self {
        Self(schemas)
    }

    fn of(&self, object: &Object) -> Option<&Schema> {
        self.0.get(object.api_version().rsplit('/').next().unwrap_or_default()).map(|schema| &**schema)
    }

    /// An object out of the store: the definition may have changed since it was written, so it is pruned and defaulted anew.
    pub(super) fn read(&self, object: Object) -> Object {
        let Some(schema) = self.of(&object) else { return object };
        let mut value = object.into_value();
        schema.prune(&mut value);
        schema.default(&mut value);
        Object::from_value(value).unwrap_or_default()
    }

    /// Drops what the object's version does not know.
    fn prune(&self, object: Object) -> Object {
        let Some(schema) = self.of(&object) else { return object };
        let mut value = object.into_value();
        schema.prune(&mut value);
        Object::from_value(value).unwrap_or_default()
    }
}

/// Conversion between one served version and the stored one.
pub(super) struct Versions {
    pub(super) served: GroupVersionKind,
    pub(super) stored: GroupVersionKind,
    pub(super) schemas: Arc<Schemas>,
    /// Whether only a webhook knows how versions differ.
    pub(super) webhook: bool,
}

impl Versions {
    /// With the strategy `None` versions differ in their name alone.
    fn convert(&self, mut object: Object, target: &GroupVersionKind) -> Result<Object, Status> {
        if object.api_version() == target.api_version() {
            return Ok(object);
        }
        if self.webhook {
            let from = GroupVersionKind::from_api_version(object.api_version(), object.kind()).unwrap_or_else(|_| target.clone());
            return Err(Status::internal(format!(
                "conversion webhook for {from} failed: conversion webhooks are not called by this server"
            )));
        }
        object.set_gvk(target);
        Ok(self.schemas.prune(object))
    }
}

impl Conversion for Versions {
    fn to_served(&self, obj: Object) -> Result<Object, Status> {
        self.convert(self.schemas.read(obj), &self.served)
    }

    fn to_stored(&self, obj: Object) -> Result<Object, Status> {
        self.convert(obj, &self.stored)
    }
}
