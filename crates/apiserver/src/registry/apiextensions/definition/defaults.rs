//! Defaults in schemas: they must keep the rules of the schema they stand in.

use apimachinery::{
    field::{Error, ErrorList, Path},
    schema::{Schema, Validator, structural_part},
};
use serde_json::Value;

use crate::{
    registry::check::At,
    schema::{Definitions, OBJECT_META},
};

/// Checks all defaults of a structural schema. `pruned`: they may have no fields the schema does not know.
pub(super) fn check(schema: &At<'_>, pruned: bool, errs: &mut ErrorList) {
    if let Some(meta) = Definitions::builtin().get(OBJECT_META) {
        walk(schema, pruned, &meta, errs);
    }
}

fn walk(at: &At<'_>, pruned: bool, meta: &Schema, errs: &mut ErrorList) {
    let default = at.get("default");
    if default.is_set() {
        one(&default, at.value, pruned, meta, errs);
    }
    // Below additionalProperties there are none.
    if at.get("items").map().is_some() {
        walk(&at.get("items"), pruned, meta, errs);
    }
    at.get("properties").entries().iter().for_each(|(_, property)| walk(property, pruned, meta, errs));
}

fn one(default: &At<'_>, schema: &Value, pruned: bool, meta: &Schema, errs: &mut ErrorList) {
    let part = structural_part(schema, meta);
    let mut value = default.value.clone();
    if pruned && !part.prune(&mut value).is_empty() {
        errs.push(default.invalid("must not have unknown fields"));
    }
    let mut value = default.value.clone();
    if let Err(error) = part.coerce(&mut value) {
        let below = if error.field.is_root() { default.path.clone() } else { default.path.child(error.field.as_str()) };
        return errs.push(Error { field: below, ..error });
    }
    errs.extend(Validator::new(schema).validate_part(default.value, None, &default.path));
}

/// Whether a schema has a default that says more than the schema knows.
pub(super) fn has_unpruned(schema: &Value) -> bool {
    let mut errs = ErrorList::new();
    check(&At::new(Path::root(), schema), true, &mut errs);
    errs.iter().any(|error| error.detail == "must not have unknown fields")
}
