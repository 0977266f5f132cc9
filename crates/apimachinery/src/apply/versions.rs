//! One change seen in each version of the kind that somebody manages fields of.

use std::collections::BTreeMap;
use std::fmt;

use super::set::FieldSet;
use super::typed::Type;
use super::{Context, walk};
use crate::object::Object;
use crate::schema::Schema;

/// An object in another version of its kind.
pub enum InVersion {
    /// The object, and its schema.
    Converted(Object, Schema),
    /// It has no such version (any more).
    Unknown,
    /// Nobody can tell.
    Failed,
}

/// Turns objects into other versions of their kind.
pub trait Versions: fmt::Debug {
    /// The object as it is in `api_version`.
    fn convert(&self, object: &Object, api_version: &str) -> InVersion;
}

/// What a change did to an object's fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// Fields with another value.
    pub(super) changed: FieldSet,
    /// Fields that are no more.
    pub(super) removed: FieldSet,
}

impl Change {
    fn between(schema: &Schema, before: &Object, after: &Object, cx: &Context<'_>) -> Self {
        let comparison = walk::compare(Type::of(schema), &before.0, &after.0).without(cx.ignored);
        Self { changed: comparison.changed(), removed: comparison.removed }
    }
}

/// A change from one object to another, in as many versions as are asked for.
pub(super) struct Changes<'a> {
    before: &'a Object,
    after: &'a Object,
    cx: &'a Context<'a>,
    own: Change,
    others: BTreeMap<String, Option<Change>>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(before: &'a Object, after: &'a Object, cx: &'a Context<'a>) -> Self {
        Self { before, after, cx, own: Change::between(cx.schema, before, after, cx), others: BTreeMap::new() }
    }

    /// In the version the request speaks.
    pub(super) fn own(&self) -> &Change {
        &self.own
    }

    /// In that version; `None` if there is no such one.
    pub(super) fn within(&mut self, api_version: &str) -> Option<&Change> {
        let Some(versions) = self.cx.versions.filter(|_| api_version != self.cx.gvk.api_version()) else { return Some(&self.own) };
        if !self.others.contains_key(api_version) {
            let change = match (versions.convert(self.before, api_version), versions.convert(self.after, api_version)) {
                (InVersion::Unknown, _) | (_, InVersion::Unknown) => None,
                (InVersion::Converted(before, schema), InVersion::Converted(after, _)) => {
                    Some(Change::between(&schema, &before, &after, self.cx))
                }
                _ => Some(self.own.clone()),
            };
            self.others.insert(api_version.to_owned(), change);
        }
        self.others.get(api_version).and_then(Option::as_ref)
    }
}
