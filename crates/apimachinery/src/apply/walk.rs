//! Walks over typed values: validating, collecting fields, comparing, removing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::{FieldSet, PathElement, print};
use super::typed::{Shape, Type, word};

/// What is wrong with a value, as `path: message`, in upstream's words.
pub(super) fn validate(ty: Type<'_>, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(ty, value, &mut Vec::new(), &mut errors);
    errors
}

fn check(ty: Type<'_>, value: &Value, path: &mut Vec<PathElement>, errors: &mut Vec<String>) {
    let mut complain = |path: &[PathElement], message: &str| {
        let path = print(path);
        errors.push(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") });
    };
    if let Some(expected) = ty.scalar_mismatch(value) {
        return complain(path, &format!("expected {expected}, got {}", word(value)));
    }
    match (ty.shape(Some(value)), value) {
        (Shape::List(keys), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                match ty.item_element(keys, item) {
                    Err(message) => complain(path, &format!("element {index}: {message}")),
                    Ok(element) if !seen.insert(element.clone()) => complain(path, &format!("duplicate entries for key {element}")),
                    Ok(_) => {}
                }
            }
            for (index, item) in items.iter().enumerate() {
                path.push(ty.item_element(keys, item).unwrap_or(PathElement::Index(index as i64)));
                check(ty.items(), item, path, errors);
                path.pop();
            }
        }
        (Shape::Leaf, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push(PathElement::Index(index as i64));
                check(ty.items(), item, path, errors);
                path.pop();
            }
        }
        (_, Value::Object(members)) => {
            for (name, member) in members {
                path.push(PathElement::Field(name.clone()));
                match ty.member(name) {
                    Some((ty, _)) => check(ty, member, path, errors),
                    None if ty.scalar_mismatch(&Value::Bool(true)).is_none() => {}
                    None => errors.push(format!("{}: field not declared in schema", print(path))),
                }
                path.pop();
            }
        }
        _ => {}
    }
}

/// All fields a value sets, as an applied configuration owns them.
pub(super) fn fields(ty: Type<'_>, value: &Value) -> FieldSet {
    collect(ty, value).1
}

/// Whether the value itself is a field, and the fields below it.
fn collect(ty: Type<'_>, value: &Value) -> (bool, FieldSet) {
    let mut below = FieldSet::default();
    match (ty.shape(Some(value)), value) {
        (Shape::Leaf, _) => return (true, below),
        (Shape::Map, Value::Object(members)) => {
            for (name, member) in members {
                let (ty, named) = ty.member_or_deduced(name);
                let (own, inside) = collect(ty, member);
                let empty = member.is_null() || member.as_object().is_some_and(Map::is_empty);
                below.attach(PathElement::Field(name.clone()), own || empty || !named, inside);
            }
        }
        (Shape::List(keys), Value::Array(items)) => {
            for (element, items) in by_element(ty, keys, items) {
                // Of items that are not told apart only the key is owned.
                let inside = match items[..] {
                    [item] => collect(ty.items(), item).1,
                    _ => FieldSet::default(),
                };
                below.attach(element, true, inside);
            }
        }
        _ => {}
    }
    (false, below)
}

/// What differs between two values.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    /// The same without what is at or below `ignored`.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    pub(super) fn changed(&self) -> FieldSet {
        self.modified.clone().union(&self.added)
    }

    fn attach(&mut self, element: &PathElement, diff: Diff) {
        let Diff { added, modified, removed, below } = diff;
        for (set, own, below) in [
            (&mut self.added, added, below.added),
            (&mut self.modified, modified, below.modified),
            (&mut self.removed, removed, below.removed),
        ] {
            if own || !below.is_empty() {
                set.attach(element.clone(), own, below);
            }
        }
    }
}

/// What differs at one place and below it.
#[derive(Default)]
struct Diff {
    added: bool,
    modified: bool,
    removed: bool,
    below: Comparison,
}

/// Compares two objects of one type.
pub(super) fn compare(ty: Type<'_>, old: &Map<String, Value>, new: &Map<String, Value>) -> Comparison {
    members(ty, Some(old), Some(new))
}

fn walk(ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Diff {
    let decisive = new.filter(|value| !value.is_null()).or(old);
    let shape = ty.shape(decisive);
    let same_shape = match (old, new) {
        (Some(old), Some(new)) if !old.is_null() && !new.is_null() => ty.shape(Some(old)) == ty.shape(Some(new)),
        _ => true,
    };
    let below = match shape {
        Shape::Map if same_shape && !(empty(old) && empty(new)) => {
            members(ty, old.and_then(Value::as_object), new.and_then(Value::as_object))
        }
        Shape::List(keys) if !(empty(old) && empty(new)) => items(ty, keys, list(old), list(new)),
        _ => return leaf(old, new),
    };
    Diff { added: old.is_none(), removed: new.is_none(), modified: false, below }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Diff {
    let (added, removed) = (old.is_none(), new.is_none());
    Diff { added, removed, modified: !added && !removed && old != new, below: Comparison::default() }
}

fn members(ty: Type<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> Comparison {
    let mut out = Comparison::default();
    let mut member = |name: &String, old: Option<&Value>, new: Option<&Value>| {
        if old != new {
            out.attach(&PathElement::Field(name.clone()), walk(ty.member_or_deduced(name).0, old, new));
        }
    };
    for (name, value) in new.into_iter().flatten() {
        member(name, old.and_then(|fields| fields.get(name)), Some(value));
    }
    for (name, value) in old.into_iter().flatten() {
        if new.is_none_or(|fields| !fields.contains_key(name)) {
            member(name, Some(value), None);
        }
    }
    out
}

fn items(ty: Type<'_>, keys: &[String], old: &[Value], new: &[Value]) -> Comparison {
    let (old, new) = (by_element(ty, keys, old), by_element(ty, keys, new));
    let elements: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
    let none = Vec::new();
    let mut out = Comparison::default();
    for element in elements {
        out.attach(element, item(ty, old.get(element).unwrap_or(&none), new.get(element).unwrap_or(&none)));
    }
    out
}

/// Compares the items of one key. Several of them count as one value.
fn item(ty: Type<'_>, old: &[&Value], new: &[&Value]) -> Diff {
    match (old, new) {
        ([] | [_], [] | [_]) => walk(ty.items(), old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => Diff { modified: old != new, ..Diff::default() },
        ([_, _, ..], _) => {
            let diff = new.first().map(|new| walk(ty.items(), None, Some(new))).unwrap_or_default();
            Diff { removed: true, ..diff }
        }
        _ => {
            let diff = old.first().map(|old| walk(ty.items(), Some(old), None)).unwrap_or_default();
            Diff { added: true, ..diff }
        }
    }
}

fn empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn by_element<'v>(ty: Type<'_>, keys: &[String], items: &'v [Value]) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut out: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = ty.item_element(keys, item) {
            out.entry(element).or_default().push(item);
        }
    }
    out
}

/// The value without the fields in `gone`. What nothing is left of becomes null.
pub(super) fn remove(ty: Type<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (ty.shape(Some(value)), value) {
        (Shape::Map, Value::Object(members)) if !members.is_empty() => {
            let mut out = Map::new();
            for (name, member) in members {
                let element = PathElement::Field(name.clone());
                if gone.has(&element) {
                    continue;
                }
                let kept = match gone.below(&element) {
                    Some(below) => remove(ty.member_or_deduced(name).0, member, below),
                    None => member.clone(),
                };
                out.insert(name.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        (Shape::List(keys), Value::Array(items)) if !items.is_empty() => {
            let kept = items.iter().filter_map(|item| match ty.item_element(keys, item) {
                Ok(element) if gone.has(&element) => None,
                Ok(element) => Some(gone.below(&element).map_or_else(|| item.clone(), |below| remove(ty.items(), item, below))),
                Err(_) => Some(item.clone()),
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        // An atomic value of which some part is gone is gone as a whole.
        (Shape::Leaf, Value::Object(_) | Value::Array(_)) => Value::Null,
        _ => value.clone(),
    }
}

/// The set with every named field on the way to a path made a member itself.
pub(super) fn with_named_fields(ty: Type<'_>, set: &FieldSet) -> FieldSet {
    set.map_entries(&mut |element, below| {
        let (inner, named) = match element {
            PathElement::Field(name) => ty.member_or_deduced(name),
            _ => (ty.items(), false),
        };
        (named && !below.is_empty(), with_named_fields(inner, below))
    })
}
