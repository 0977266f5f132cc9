//! Which fields differ between two objects, and which fields an object has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Element, Set};
use crate::schema::{Kind, ListType, Node, Schema};

/// The difference between two objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields only the new one has.
    pub added: Set,
    /// Fields both have with different values.
    pub modified: Set,
    /// Fields only the old one has.
    pub removed: Set,
}

/// Compares two objects by the schema's list types; null counts as being there.
pub fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { out: Comparison::default(), path: Vec::new() };
    walk.value(Some(schema), Some(old), Some(new));
    walk.out
}

/// The fields an object has, as an apply owns them.
pub fn field_set(schema: &Schema, value: &Value) -> Set {
    let mut out = Set::new();
    collect(Some(schema), value, &mut Vec::new(), &mut out);
    out
}

/// How a value takes part in merging.
enum Shape {
    /// As one value.
    Leaf,
    /// By its members.
    Members,
    /// By its items.
    Items(ListType),
}

fn shape(node: Option<&Node>, value: &Value) -> Shape {
    let Some(node) = node else { return deduced(value) };
    match &node.kind {
        Kind::Object(_) if node.atomic => Shape::Leaf,
        Kind::Map(_) if node.atomic => Shape::Leaf,
        Kind::Object(_) | Kind::Map(_) => Shape::Members,
        Kind::Array(_) => match &node.list {
            ListType::Atomic => Shape::Leaf,
            list => Shape::Items(list.clone()),
        },
        // Custom resources keep unknown fields, whose members are told apart; built-in raw values are one value.
        Kind::Any if node.preserve_unknown => deduced(value),
        _ => Shape::Leaf,
    }
}

fn deduced(value: &Value) -> Shape {
    if value.is_object() { Shape::Members } else { Shape::Leaf }
}

struct Walk {
    out: Comparison,
    path: Vec<Element>,
}

impl Walk {
    fn value(&mut self, schema: Option<&Schema>, old: Option<&Value>, new: Option<&Value>) {
        let Some(sample) = new.filter(|v| !v.is_null()).or(old).or(new) else { return };
        let leaf = match shape(schema.map(Schema::node), sample) {
            Shape::Leaf => true,
            Shape::Members => self.members(schema, old, new),
            Shape::Items(list) => self.items(schema, &list, old, new),
        };
        match (old, new) {
            (None, Some(_)) => self.out.added.insert(&self.path),
            (Some(_), None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if leaf && old != new => self.out.modified.insert(&self.path),
            _ => {}
        }
    }

    /// Compares by members; true where both are empty, which makes a leaf of them.
    fn members(&mut self, schema: Option<&Schema>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let empty = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&empty);
        let new = new.and_then(Value::as_object).unwrap_or(&empty);
        if old.is_empty() && new.is_empty() {
            return true;
        }
        let only_old = old.keys().filter(|key| !new.contains_key(*key));
        for key in new.keys().chain(only_old) {
            self.path.push(Element::Field(key.clone()));
            let member = schema.and_then(|schema| schema.member(key));
            self.value(member.as_ref(), old.get(key), new.get(key));
            self.path.pop();
        }
        false
    }

    fn items(&mut self, schema: Option<&Schema>, list: &ListType, old: Option<&Value>, new: Option<&Value>) -> bool {
        let items = schema.and_then(Schema::items);
        let (old, new) = (keyed(items.as_ref(), list, old), keyed(items.as_ref(), list, new));
        if old.is_empty() && new.is_empty() {
            return true;
        }
        let only_old = old.keys().filter(|at| !new.contains_key(*at));
        for at in new.keys().chain(only_old) {
            self.path.push(at.clone());
            self.value(items.as_ref(), old.get(at).copied(), new.get(at).copied());
            self.path.pop();
        }
        false
    }
}

fn keyed<'v>(items: Option<&Schema>, list: &ListType, value: Option<&'v Value>) -> BTreeMap<Element, &'v Value> {
    let values = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    values.iter().map(|item| (element(items, list, item), item)).collect()
}

/// The path element of a list's item; key fields an item leaves out count with their defaults.
pub(super) fn element(items: Option<&Schema>, list: &ListType, item: &Value) -> Element {
    let ListType::Map(keys) = list else { return Element::Value(item.clone()) };
    let default = |key: &str| items.and_then(|schema| schema.field(key)?.default.clone());
    let mut fields: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), item.get(key).cloned().or_else(|| default(key))?))).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    Element::Key(fields)
}

fn collect(schema: Option<&Schema>, value: &Value, path: &mut Vec<Element>, out: &mut Set) {
    match (shape(schema.map(Schema::node), value), value) {
        (Shape::Leaf, _) => out.insert(path),
        (Shape::Members, Value::Object(map)) => {
            for (key, inner) in map {
                path.push(Element::Field(key.clone()));
                let member = schema.and_then(|schema| schema.member(key));
                collect(member.as_ref(), inner, path, out);
                let in_struct = schema.is_some_and(|schema| schema.field(key).is_some());
                if !in_struct || inner.is_null() || inner.as_object().is_some_and(Map::is_empty) {
                    out.insert(path);
                }
                path.pop();
            }
        }
        (Shape::Items(list), Value::Array(values)) => {
            let items = schema.and_then(Schema::items);
            for item in values {
                path.push(element(items.as_ref(), &list, item));
                collect(items.as_ref(), item, path, out);
                out.insert(path);
                path.pop();
            }
        }
        _ => {}
    }
}
