//! Dropping what a schema does not know.

use serde_json::{Map, Value};

use super::{Arena, Id, Kind, Node, Schema, field};
use crate::raw;

impl Schema {
    /// Drops unknown fields of a custom resource, in place, and tells their paths, sorted. The top level is an object with type and
    /// metadata.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune(self.arena(), self.id(), true, value, "", &mut dropped);
        dropped.sort();
        dropped
    }
}

fn prune(arena: &Arena, id: Id, root: bool, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    let node = arena.node(id);
    match (&node.kind, value) {
        (Kind::Object(_), Value::Object(members)) => prune_object(arena, node, root, members, path, dropped),
        (Kind::ObjectOr(inner), value @ Value::Object(_)) => prune(arena, *inner, false, value, path, dropped),
        (Kind::Map(inner), Value::Object(members)) => {
            for (key, member) in members.iter_mut() {
                prune(arena, *inner, false, member, &raw::join(path, key), dropped);
            }
        }
        (Kind::Array(inner), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(arena, *inner, false, item, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

fn prune_object(arena: &Arena, node: &Node, root: bool, members: &mut Map<String, Value>, path: &str, dropped: &mut Vec<String>) {
    let resource = root || node.embedded;
    members.retain(|key, member| {
        let path = raw::join(path, key);
        if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        match field(node, key) {
            Some(field) => prune(arena, field.node, false, member, &path, dropped),
            None if node.preserve_unknown => {}
            None => {
                dropped.push(path);
                return false;
            }
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_and_are_told_sorted() {
        let mut value = json!({"kind": "Pod", "z": 1, "spec": {"containers": [{"name": "c", "x": 1}], "a": 2}});
        assert_eq!(sample::pod().prune(&mut value), ["spec.a", "spec.containers[0].x", "z"]);
        assert_eq!(value, json!({"kind": "Pod", "spec": {"containers": [{"name": "c"}]}}));
    }
}
