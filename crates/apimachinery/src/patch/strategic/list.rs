//! Lists that merge: by key, or as sets of scalars.

use serde_json::Value;

use super::{DIRECTIVE, Error, Fields, failed, go, merge_map, order, unknown_directive, without_directives, without_nulls};
use crate::schema::Schema;

fn no_merge_key(item: &Fields, key: &str) -> Error {
    let item = go::print(&Value::Object(item.clone()));
    failed(format!("map: {item} does not contain declared merge key: {key}"))
}

/// Merges a list whose strategy is merge. What the patch names keeps the patch's order; the rest stays where it was around it.
pub(super) fn merge(original: Vec<Value>, patch: Vec<Value>, key: &str, items: Option<&Schema>) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !maps(&original, &patch)? {
        let merged = distinct(original.iter().chain(&patch));
        return Ok(order::normalize(merged, &patch, &original, ""));
    }
    if key.is_empty() {
        let name = items.map_or("", |items| items.name());
        return Err(failed(format!("cannot merge lists without merge key for {name}")));
    }
    let (original, patch) = special_items(original, patch, key)?;
    let merged = plain_items(original.clone(), &patch, key, items)?;
    Ok(order::normalize(merged, &patch, &original, key))
}

/// Whether the items are objects; lists of lists and mixed lists cannot merge.
fn maps(original: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let mut all = original.iter().chain(patch);
    let first = all.clone().next().map(go_kind).unwrap_or_default();
    if all.clone().any(Value::is_array) {
        return Err(Error::Unprocessable("lists of lists are not supported".into()));
    }
    if all.any(|item| go_kind(item) != first) {
        return Err(failed("list element types are not identical"));
    }
    Ok(first == "map")
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn distinct<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for item in items {
        if !out.contains(item) {
            out.push(item.clone());
        }
    }
    out
}

/// Carries out the items that are directives: those to delete, and the one that replaces the whole list.
fn special_items(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(fields) = &item else {
            continue;
        };
        let Some(directive) = fields.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                original.retain(|item| item.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(failed("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(unknown_directive(directive, fields)),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn plain_items(mut merged: Vec<Value>, patch: &[Value], key: &str, items: Option<&Schema>) -> Result<Vec<Value>, Error> {
    for item in patch {
        let Value::Object(change) = item else {
            continue;
        };
        let value = change.get(key).ok_or_else(|| no_merge_key(change, key))?;
        let found = merged.iter().position(|item| item.get(key) == Some(value));
        match found.map(|place| (place, std::mem::take(&mut merged[place]))) {
            Some((place, Value::Object(before))) => merged[place] = Value::Object(merge_map(before, change.clone(), items)?),
            _ => merged.extend(without_directives(without_nulls(item.clone()))),
        }
    }
    Ok(merged)
}
