//! The algebra of patches.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Error, json as operations, merge, strategic};
use crate::{arbitrary, raw, schema::sample};

fn pointers() -> impl Strategy<Value = String> {
    let known = vec!["", "/", "/a", "/a/b", "/l", "/l/0", "/l/1", "/l/-", "/l/-1", "/l/99", "/l/x", "/~1", "/~0~", "a", "/a/b/c/0"];
    prop_oneof![prop::sample::select(known).prop_map(str::to_owned), "(/[ab0-9~-]{0,2}){0,3}".prop_map(String::from)]
}

fn operation() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "odd"]);
    (name, pointers(), pointers(), arbitrary::json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

fn patches() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(operation(), 0..4)
}

fn documents() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({"a": {"b": 1}, "l": [1, {"x": 2}]})), arbitrary::json()]
}

fn applied(doc: &Value, patch: &[Value]) -> Result<Value, Error> {
    operations::apply(doc, Value::from(patch.to_vec()).to_string().as_bytes()).map(|patched| patched.value)
}

/// An object of the sample kind: the items of its lists have keys, and no key comes twice.
fn pods() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[A-C]", "[0-1]", 0..3);
    let item = |(name, (image, env)): (String, (String, BTreeMap<String, String>))| {
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({"name": name, "image": image, "env": env})
    };
    let containers = prop::collection::btree_map("[a-d]", ("[i-k]", env), 0..4);
    let containers = containers.prop_map(move |containers| containers.into_iter().map(item).collect::<Vec<_>>()).prop_shuffle();
    let (labels, finalizers) = (prop::collection::btree_map("[a-c]", "[0-2]", 0..3), prop::collection::btree_set("[x-z]", 0..3));
    (containers, labels, finalizers).prop_map(|(containers, labels, finalizers)| {
        json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": {"containers": containers}})
    })
}

/// A document without nulls and directives.
fn plain() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0i64..3).prop_map(Value::from), "[a-c]?".prop_map(Value::from)];
    let inner = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn two_json_patches_in_a_row_are_one(doc in documents(), first in patches(), second in patches()) {
        let apart = applied(&doc, &first).and_then(|between| applied(&between, &second));
        let joined = applied(&doc, &[first, second].concat());
        prop_assert_eq!(apart.ok(), joined.ok());
    }

    #[test]
    fn what_was_added_can_be_tested_and_removed(doc in plain(), value in arbitrary::json()) {
        let add = json!({"op": "add", "path": "/new", "value": value});
        let test = json!({"op": "test", "path": "/new", "value": value});
        let remove = json!({"op": "remove", "path": "/new"});
        prop_assert_eq!(applied(&doc, &[add, test, remove]).unwrap(), doc);
    }

    #[test]
    fn any_bytes_are_a_patch_or_refused(doc in documents(), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = operations::apply(&doc, &bytes);
        let _ = merge::apply(&doc, &bytes);
        let _ = strategic::apply(&doc, &bytes, &sample::pod());
        let _ = raw::parse_yaml(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_json_is_a_patch_or_refused(doc in arbitrary::json(), patch in arbitrary::json()) {
        let text = patch.to_string();
        let _ = operations::apply(&doc, text.as_bytes());
        let _ = merge::apply(&doc, text.as_bytes());
        let _ = strategic::apply(&doc, text.as_bytes(), &sample::pod());
    }

    #[test]
    fn a_strategic_merge_patch_applied_twice_changes_nothing_more(doc in pods(), patch in pods()) {
        let kind = sample::pod();
        let once = strategic::merge(&doc, &patch, Some(&kind)).unwrap();
        let twice = strategic::merge(&once, &patch, Some(&kind)).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn a_strategic_merge_keeps_every_item_and_takes_the_patchs_values(doc in pods(), patch in pods()) {
        let merged = strategic::merge(&doc, &patch, Some(&sample::pod())).unwrap();
        let images = |pod: &Value| -> Vec<(Value, Value)> {
            let list = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
            list.into_iter().map(|item| (item["name"].clone(), item["image"].clone())).collect()
        };
        let (before, changes, after) = (images(&doc), images(&patch), images(&merged));
        prop_assert!(changes.iter().all(|pair| after.contains(pair)));
        prop_assert!(before.iter().all(|(name, _)| after.iter().filter(|(other, _)| other == name).count() == 1));
    }

    #[test]
    fn without_a_schema_a_strategic_merge_is_a_merge(doc in plain(), patch in plain()) {
        let mut merged = doc.clone();
        merge::merge(&mut merged, &patch);
        prop_assert_eq!(strategic::merge(&doc, &patch, None).unwrap(), merged);
    }
}
