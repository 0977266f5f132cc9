//! Strategic merge patch: a merge patch that knows from the schema which lists merge by which key, steered by directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`).

use serde_json::{Map, Value};

use super::{Error, Patched, read_object};
use crate::go;
use crate::schema::{Patch, Schema};

mod list;
mod order;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// Applies a strategic merge patch as it was sent. `schema` is the kind's.
pub fn apply(doc: &Value, patch: &[u8], schema: &Schema) -> Result<Patched, Error> {
    let (patch, strict) = read_object(patch, "")?;
    let value = merge(doc, &patch, Some(schema))?;
    Ok(Patched { value, patch, strict })
}

/// Merges `patch` into `doc`. Where there is no schema, lists are replaced.
pub fn merge(doc: &Value, patch: &Value, schema: Option<&Schema>) -> Result<Value, Error> {
    let (Value::Object(original), Value::Object(changes)) = (doc, patch) else {
        return Ok(doc.clone());
    };
    merge_map(original.clone(), changes.clone(), schema).map(Value::Object)
}

type Fields = Map<String, Value>;

fn failed(message: impl Into<String>) -> Error {
    Error::Failed(message.into())
}

fn malformed(what: &str) -> Error {
    Error::Malformed(format!("invalid patch format of {what}"))
}

fn unknown_directive(directive: &Value, patch: &Fields) -> Error {
    let patch = go::print(&Value::Object(patch.clone()));
    failed(format!("unknown patch type: {} in map: {patch}", go::print(directive)))
}

/// The field's merge rules, and the schema of its value.
fn rules(schema: Option<&Schema>, key: &str) -> (Patch, Option<Schema>) {
    let Some(schema) = schema else {
        return (Patch::default(), None);
    };
    let patch = schema.field(key).map(|field| field.patch.clone()).unwrap_or_default();
    (patch, schema.member(key))
}

fn merge_map(mut original: Fields, mut patch: Fields, schema: Option<&Schema>) -> Result<Fields, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::enforce(&mut original, &mut patch, schema)?;
    for (key, change) in patch {
        match list_to_delete_from(&key)? {
            Some(list) => delete_from_list(&mut original, list, change),
            None => merge_member(&mut original, &key, change, schema)?,
        }
    }
    Ok(original)
}

fn merge_member(original: &mut Fields, key: &str, change: Value, schema: Option<&Schema>) -> Result<(), Error> {
    if change.is_null() {
        original.remove(key);
        return Ok(());
    }
    let (rules, inner) = rules(schema, key);
    let merged = match (original.remove(key), change) {
        (Some(Value::Object(before)), Value::Object(change)) => Value::Object(merge_map(before, change, inner.as_ref())?),
        (Some(Value::Array(before)), Value::Array(change)) if rules.merge => {
            let items = inner.and_then(|list| list.items());
            Value::Array(list::merge(before, change, &rules.merge_key, items.as_ref())?)
        }
        (_, change) => match without_directives(without_nulls(change)) {
            Some(value) => value,
            None => return Ok(()),
        },
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

/// The list a `$deleteFromPrimitiveList/NAME` member speaks of.
fn list_to_delete_from(key: &str) -> Result<Option<&str>, Error> {
    directive_target(key, DELETE_FROM_LIST)
}

fn directive_target<'a>(key: &'a str, directive: &str) -> Result<Option<&'a str>, Error> {
    let Some(rest) = key.strip_prefix(directive) else {
        return Ok(None);
    };
    let name = rest.strip_prefix('/').filter(|name| !name.is_empty() && !name.contains('/'));
    name.map(Some).ok_or_else(|| failed(format!("invalid format for key {key}")))
}

fn delete_from_list(original: &mut Fields, list: &str, gone: Value) {
    if let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(list), gone) {
        items.retain(|item| !gone.contains(item));
    }
}

/// `$retainKeys`: drops what the list does not name; the patch may name nothing else either.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = directive else {
        return Err(malformed("retainKeys"));
    };
    let kept = |key: &str| retained.iter().any(|name| name == key);
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !kept(key)) {
        return Err(malformed("retainKeys"));
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// A value that is new to the object: its nulls have nothing to remove.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A value that is new to the object, its directives taken out; `None` if it is itself one, whatever else it says.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(DIRECTIVE) {
                return None;
            }
            let directive = |key: &str| key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) || key.starts_with(DELETE_FROM_LIST);
            let kept = fields.into_iter().filter(|(key, _)| !directive(key));
            Some(Value::Object(kept.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect()))
        }
        Value::Array(items) => {
            let only_directive = |item: &Value| item.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key(DIRECTIVE));
            let kept = items.into_iter().filter(|item| !only_directive(item));
            Some(Value::Array(kept.filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
