//! Uniqueness in lists of custom resources that are sets or maps (`apiserver/schema/listtype`).

use serde_json::{Map, Value};

use super::{Arena, Id, Kind, ListType, Schema, field};
use crate::field::{Error, ErrorList, Path};

impl Schema {
    /// Items that occur more than once in sets, or have the keys of another in maps; one error for each such value.
    pub fn validate_lists(&self, value: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(self.arena(), self.id(), value, &Path::root(), &mut errors);
        errors
    }
}

fn validate(arena: &Arena, id: Id, value: &Value, path: &Path, errors: &mut ErrorList) {
    let node = arena.node(id);
    match (&node.kind, value) {
        (Kind::Object(_), Value::Object(members)) => {
            for (name, member) in members {
                if let Some(field) = field(node, name).filter(|_| !(arena.custom == Some(id) && name == "metadata")) {
                    validate(arena, field.node, member, &path.child(name), errors);
                }
            }
        }
        (Kind::Map(inner), Value::Object(members)) => {
            members.iter().for_each(|(name, member)| validate(arena, *inner, member, &path.key(name), errors));
        }
        (Kind::Array(inner), Value::Array(items)) => {
            match &node.list {
                ListType::Set => {
                    repeated(items).into_iter().for_each(|at| errors.push(Error::duplicate(&path.index(at), items[at].clone())))
                }
                ListType::Map(keys) => errors.extend(check_map(keys, items, path)),
                ListType::Atomic => {}
            }
            items.iter().enumerate().for_each(|(at, item)| validate(arena, *inner, item, &path.index(at), errors));
        }
        _ => {}
    }
}

fn check_map(keys: &[String], items: &[Value], path: &Path) -> ErrorList {
    let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(at) = stray {
        return vec![Error::invalid(&path.index(at), items[at].clone(), "must be an object for an array of list-type map")];
    }
    let key = |item: &Value| -> Value {
        keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect::<Map<_, _>>().into()
    };
    let found: Vec<Value> = items.iter().map(key).collect();
    repeated(&found).into_iter().map(|at| Error::duplicate(&path.index(at), found[at].clone())).collect()
}

/// Where each value that occurs more than once does so for the second time.
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut seen = std::collections::HashMap::with_capacity(values.len());
    let mut out = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_insert(0_usize);
        *times += 1;
        if *times == 2 {
            out.push(at);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{sample, structural};
    use serde_json::{Value, json};

    fn errors(list: Value, value: Value) -> Vec<String> {
        let meta = sample::pod().member("metadata").unwrap();
        let spec = json!({"type": "object", "properties": {"l": list}});
        let schema = structural("com.test.v1.Widget", &json!({"type": "object", "properties": {"spec": spec}}), &meta);
        schema.validate_lists(&json!({"spec": {"l": value}})).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_set_names_each_repeated_value_once() {
        let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
        assert_eq!(errors(set, json!(["a", "b", "a", "a"])), ["spec.l[2]: Duplicate value: \"a\""]);
    }

    #[test]
    fn a_map_names_the_keys_that_are_taken() {
        let items = json!({"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "string"}}});
        let map =
            |keys: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
        let value = json!([{"k": "1", "p": "a"}, {"k": "1", "p": "b"}, {"k": "1", "p": "a"}]);
        assert_eq!(errors(map(json!(["k"])), value.clone()), [r#"spec.l[1]: Duplicate value: {"k":"1"}"#]);
        assert_eq!(errors(map(json!(["k", "p"])), value), [r#"spec.l[2]: Duplicate value: {"k":"1","p":"a"}"#]);
        let stray = errors(map(json!(["k"])), json!([1]));
        assert_eq!(stray, ["spec.l[0]: Invalid value: 1: must be an object for an array of list-type map"]);
    }
}
