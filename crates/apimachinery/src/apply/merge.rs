//! Merging an applied configuration into the live object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::PathElement;
use super::typed::{Shape, Type};

/// `live` with all that `config` sets.
pub(super) fn merge(ty: Type<'_>, live: &Value, config: &Value) -> Value {
    values(ty, Some(live), Some(config)).unwrap_or(Value::Null)
}

fn values(ty: Type<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let decisive = config.filter(|value| !value.is_null()).or(live);
    let leaf = || config.or(live).cloned();
    match ty.shape(decisive) {
        Shape::Leaf => leaf(),
        Shape::Map => {
            let (live, config) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            if live.is_none_or(Map::is_empty) && config.is_none_or(Map::is_empty) {
                return leaf();
            }
            Some(Value::Object(members(ty, live, config)))
        }
        Shape::List(keys) => {
            let (live, config) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
            if live.is_none_or(Vec::is_empty) && config.is_none_or(Vec::is_empty) {
                return leaf();
            }
            let slice = |items: Option<&Vec<Value>>| items.map(Vec::as_slice).unwrap_or_default().to_vec();
            Some(Value::Array(Lists::new(ty, keys, &slice(live), &slice(config)).merge()))
        }
    }
}

fn members(ty: Type<'_>, live: Option<&Map<String, Value>>, config: Option<&Map<String, Value>>) -> Map<String, Value> {
    let names: BTreeSet<&String> = live.into_iter().chain(config).flat_map(Map::keys).collect();
    let merged = names.into_iter().filter_map(|name| {
        let (live, config) = (live.and_then(|fields| fields.get(name)), config.and_then(|fields| fields.get(name)));
        Some((name.clone(), values(ty.member_or_deduced(name).0, live, config)?))
    });
    merged.collect()
}

/// Two lists whose items are told apart. The configuration's order wins; the live object's other items keep their neighbours.
struct Lists<'a, 'v> {
    ty: Type<'a>,
    live: Vec<(PathElement, &'v Value)>,
    config: Vec<(PathElement, &'v Value)>,
    live_by: BTreeMap<PathElement, Option<&'v Value>>,
    in_config: BTreeSet<PathElement>,
}

impl<'a, 'v> Lists<'a, 'v> {
    fn new(ty: Type<'a>, keys: &[String], live: &'v [Value], config: &'v [Value]) -> Self {
        let elements = |items: &'v [Value]| -> Vec<(PathElement, &'v Value)> {
            items.iter().filter_map(|item| Some((ty.item_element(keys, item).ok()?, item))).collect()
        };
        let (live, config) = (elements(live), elements(config));
        let mut live_by = BTreeMap::new();
        for (element, item) in &live {
            // A key that occurs twice merges with none of its items.
            live_by.entry(element.clone()).and_modify(|known| *known = None).or_insert(Some(*item));
        }
        let in_config = config.iter().map(|(element, _)| element.clone()).collect();
        Self { ty, live, config, live_by, in_config }
    }

    fn merge(&self) -> Vec<Value> {
        let mut shared = self.config.iter().map(|(element, _)| element).filter(|element| self.live_by.contains_key(*element));
        let mut next_shared = shared.next();
        let mut merged = BTreeSet::new();
        let mut out = Vec::new();
        let (mut l, mut r) = (0, 0);
        while l < self.live.len() || r < self.config.len() {
            let (live, config) = (self.live.get(l), self.config.get(r));
            if let (Some((element, _)), Some((other, _))) = (live, config) {
                if element == other {
                    merged.insert(element.clone());
                    out.extend(self.item(r));
                    (l, r) = (l + 1, r + 1);
                    next_shared = shared.next();
                    continue;
                }
                if self.in_config.contains(element) && next_shared.is_some_and(|next| next != element) {
                    // Its turn comes with the configuration's item.
                    l += 1;
                    continue;
                }
            }
            if let Some((element, item)) = live {
                if !self.in_config.contains(element) {
                    out.push((*item).clone());
                    l += 1;
                    continue;
                }
                if merged.contains(element) {
                    l += 1;
                }
            }
            if let Some((element, _)) = config {
                merged.insert(element.clone());
                out.extend(self.item(r));
                r += 1;
                if next_shared == Some(element) {
                    next_shared = shared.next();
                }
            }
        }
        out
    }

    fn item(&self, index: usize) -> Option<Value> {
        let (element, config) = &self.config[index];
        let live = self.live_by.get(element).copied().flatten();
        values(self.ty.items(), live, Some(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::sample;
    use serde_json::json;

    fn names(live: &[&str], config: &[&str]) -> Vec<String> {
        let list = |names: &[&str]| json!({"spec": {"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}});
        let schema = sample::pod();
        let merged = merge(Type::of(&schema), &list(live), &list(config));
        let items = merged["spec"]["containers"].as_array().unwrap().clone();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn list_items_take_the_configurations_order_around_the_live_ones() {
        assert_eq!(names(&["a", "b", "c"], &["c", "a"]), ["b", "c", "a"]);
        assert_eq!(names(&["a", "b"], &["x", "b"]), ["a", "x", "b"]);
        assert_eq!(names(&["a", "b", "c"], &["b", "d"]), ["a", "b", "c", "d"]);
    }

    #[test]
    fn maps_merge_and_atomic_values_replace() {
        let schema = sample::pod();
        let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"selector": {"matchLabels": {"x": "1"}}}});
        let config = json!({"metadata": {"labels": {"b": "3"}}, "spec": {"selector": {"matchLabels": {"y": "2"}}}});
        let merged = merge(Type::of(&schema), &live, &config);
        assert_eq!(merged, json!({"metadata": {"labels": {"a": "1", "b": "3"}}, "spec": {"selector": {"matchLabels": {"y": "2"}}}}));
    }
}
