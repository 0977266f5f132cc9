//! The order of merged lists: as the patch states it, the server's other items around it as they were.

use serde_json::Value;

use super::{DIRECTIVE, ELEMENT_ORDER, Error, Fields, directive_target, failed, go, list, malformed, rules, without_directives};
use crate::schema::Schema;

/// Carries out `$setElementOrder/NAME` members, merging the lists they speak of on the way.
pub(super) fn enforce(original: &mut Fields, patch: &mut Fields, schema: Option<&Schema>) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else {
            continue;
        };
        let Value::Array(order) = order else {
            return Err(malformed("setElementOrder list"));
        };
        let Some(name) = directive_target(&directive, ELEMENT_ORDER)? else {
            continue;
        };
        let before = take_list(original, name)?;
        let change = take_list(patch, name)?;
        let (rules, inner) = rules(schema, name);
        check(change.as_deref().unwrap_or_default(), &order, &rules.merge_key)?;
        let merged = match (before.clone(), change) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(change)) => match without_directives(Value::Array(change)) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            },
            (Some(before), Some(change)) if rules.merge => {
                let items = inner.and_then(|list| list.items());
                list::merge(before, change, &rules.merge_key, items.as_ref())?
            }
            (Some(_), Some(change)) => change,
        };
        let merged = normalize(merged, &order, &before.unwrap_or_default(), &rules.merge_key);
        original.insert(name.to_owned(), Value::Array(merged));
    }
    Ok(())
}

fn take_list(fields: &mut Fields, name: &str) -> Result<Option<Vec<Value>>, Error> {
    match fields.remove(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(failed(format!("expected a list at {name}, but received {}", go::print(&other)))),
    }
}

/// The patch's items must come in the stated order.
fn check(patch: &[Value], order: &[Value], key: &str) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut named = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if !named.any(|other| same(item, other, key)) {
            let print = |items: &[Value]| go::print(&Value::Array(items.to_vec()));
            let (patch, order) = (print(patch), print(order));
            return Err(failed(format!("The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n")));
        }
    }
    Ok(())
}

fn same(a: &Value, b: &Value, key: &str) -> bool {
    if key.is_empty() { a == b } else { a.get(key).is_some() && a.get(key) == b.get(key) }
}

fn place(list: &[Value], item: &Value, key: &str) -> Option<usize> {
    list.iter().position(|other| same(other, item, key))
}

/// Sorts the items named by `order` that way, and threads the others between them by their place in `before`.
pub(super) fn normalize(merged: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(|item| place(order, item, key).is_some());
    named.sort_by_key(|item| place(order, item, key));
    others.sort_by_key(|item| place(before, item, key).unwrap_or(usize::MAX));
    thread(others, named, before, key)
}

/// Each of `others` goes in front of the first named item that came after it before, searching on from the last one's place.
fn thread(others: Vec<Value>, named: Vec<Value>, before: &[Value], key: &str) -> Vec<Value> {
    let mut out = Vec::with_capacity(others.len() + named.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let here = place(before, &item, key);
        while let Some(other) = others.peek() {
            match (place(before, other, key), here) {
                (Some(other), Some(here)) if other < here => out.extend(others.next()),
                _ => break,
            }
        }
        out.push(item);
    }
    out.extend(others);
    out
}
