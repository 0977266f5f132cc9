//! Selectable fields: what field selectors of a custom resource may name.

use std::{borrow::Cow, sync::Arc};

use apimachinery::{Object, go, jsonpath::JsonPath};
use serde_json::Value;

use super::convert::Schemas;
use crate::storage::SelectableFields;

/// Fields by the name selectors use, with their paths.
#[derive(Clone, Default)]
pub(super) struct Fields(Vec<(String, JsonPath)>);

impl Fields {
    /// From `selectableFields`; definitions with paths that cannot be read are refused before.
    pub(super) fn new(fields: &[Value]) -> Self {
        let paths = fields.iter().filter_map(|field| field.get("jsonPath")?.as_str());
        let read = |path: &str| Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?));
        Self(paths.filter_map(read).collect())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Those of several versions together: they are stored in one place.
    pub(super) fn union<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut union = Self::default();
        for (name, path) in all.flat_map(|fields| &fields.0) {
            if !union.names().any(|known| known == name) {
                union.0.push((name.clone(), path.clone()));
            }
        }
        union
    }

    /// The values of a stored object, which is read as its own version first: what it lacks may have a default.
    pub(super) fn of_stored(self, schemas: Arc<Schemas>) -> SelectableFields {
        if self.0.is_empty() {
            return Arc::new(|_| Vec::new());
        }
        Arc::new(move |object: &Object| {
            let value = schemas.read(object.clone()).into_value();
            self.0.iter().map(|(name, path)| (Cow::Owned(name.clone()), text(path.first(&value)))).collect()
        })
    }
}

fn text(value: Option<&Value>) -> String {
    value.filter(|value| !value.is_null()).map(go::print).unwrap_or_default()
}
