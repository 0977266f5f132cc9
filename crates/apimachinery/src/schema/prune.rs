//! Dropping what a schema does not know.

use serde_json::{Map, Value};

use super::{Arena, Id, Kind, Node, Schema, field};
use crate::raw;

impl Schema {
    /// Drops unknown fields of a custom resource or a part of one, in place, and tells their paths, sorted. Type and metadata of a
    /// resource are left alone.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { arena: self.arena(), dropped: Vec::new() };
        pruner.prune(self.id(), self.is_custom(), false, value, "");
        pruner.dropped.sort();
        pruner.dropped
    }
}

struct Pruner<'a> {
    arena: &'a Arena,
    dropped: Vec<String>,
}

impl Pruner<'_> {
    /// `keep`: the value is an item of a list that keeps what it does not know.
    fn prune(&mut self, id: Id, root: bool, keep: bool, value: &mut Value, path: &str) {
        let arena = self.arena;
        let node = arena.node(id);
        let keep = keep || node.preserve_unknown;
        match (&node.kind, value) {
            (Kind::Object(_), Value::Object(members)) => self.object(node, root, keep, members, path),
            (Kind::ObjectOr(inner), value @ Value::Object(_)) => self.prune(*inner, false, keep, value, path),
            (Kind::Map(inner), Value::Object(members)) => {
                for (key, member) in members.iter_mut() {
                    self.prune(*inner, false, false, member, &raw::join(path, key));
                }
            }
            (Kind::Array(inner), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(*inner, false, keep, item, &format!("{path}[{index}]"));
                }
            }
            (Kind::AnyObject | Kind::ObjectOr(_), _) => {}
            (_, value) if !keep => self.strip(value, path),
            _ => {}
        }
    }

    fn object(&mut self, node: &Node, root: bool, keep: bool, members: &mut Map<String, Value>, path: &str) {
        let resource = root || node.embedded;
        members.retain(|key, member| {
            let path = raw::join(path, key);
            if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            match field(node, key) {
                Some(field) => self.prune(field.node, false, false, member, &path),
                None if keep => {}
                None => {
                    self.dropped.push(path);
                    return false;
                }
            }
            true
        });
    }

    /// Empties the objects in a value of which the schema says nothing; scalars and lists stay for validation to judge.
    fn strip(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Object(members) => {
                self.dropped.extend(members.keys().map(|key| raw::join(path, key)));
                members.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.strip(item, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{sample, structural};
    use serde_json::{Value, json};

    fn pruned(spec: Value, value: Value) -> (Value, Vec<String>) {
        let meta = sample::pod().member("metadata").unwrap();
        let schema = structural("com.test.v1.Widget", &json!({"type": "object", "properties": {"spec": spec}}), &meta);
        let mut value = json!({"spec": value});
        let dropped = schema.prune(&mut value);
        (value["spec"].take(), dropped)
    }

    #[test]
    fn unknown_fields_go_and_are_told_sorted() {
        let mut value = json!({"kind": "Pod", "z": 1, "spec": {"containers": [{"name": "c", "x": 1}], "a": 2}});
        assert_eq!(sample::pod().prune(&mut value), ["spec.a", "spec.containers[0].x", "z"]);
        assert_eq!(value, json!({"kind": "Pod", "spec": {"containers": [{"name": "c"}]}}));
    }

    #[test]
    fn a_map_of_anything_keeps_its_keys_but_no_objects_below() {
        let spec = json!({"type": "object", "additionalProperties": true});
        let (value, dropped) = pruned(spec, json!({"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}));
        assert_eq!(value, json!({"a": 1, "b": {}, "d": [{}]}));
        assert_eq!(dropped, ["spec.b.c", "spec.d[0].e"]);
    }

    #[test]
    fn a_value_of_another_type_loses_its_fields() {
        assert_eq!(pruned(json!({"type": "string"}), json!({"a": 1})), (json!({}), vec!["spec.a".to_owned()]));
        assert_eq!(pruned(json!({"type": "string"}), json!([1])), (json!([1]), vec![]));
    }

    #[test]
    fn a_list_that_keeps_the_unknown_keeps_it_in_its_items() {
        let items = json!({"type": "object", "properties": {"o": {"type": "object"}}});
        let spec = json!({"type": "array", "items": items, "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(pruned(spec, json!([{"x": {"y": 1}, "o": {"z": 1}}])).0, json!([{"x": {"y": 1}, "o": {}}]));
    }

    #[test]
    fn without_a_type_the_known_fields_are_pruned_and_others_kept() {
        let spec = json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"o": {"type": "object"}}});
        assert_eq!(pruned(spec, json!({"x": {"y": 1}, "o": {"z": 1}})).0, json!({"x": {"y": 1}, "o": {}}));
    }
}
