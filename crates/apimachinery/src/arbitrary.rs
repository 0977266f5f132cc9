//! Values for property tests: JSON that looks like an object now and then, and texts that look like selectors and patches.

use proptest::prelude::*;
use serde_json::Value;

/// Member names: those of the sample kind, those with a meaning of their own, and any.
const NAMES: [&str; 30] = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "labels",
    "annotations",
    "finalizers",
    "managedFields",
    "containers",
    "name",
    "image",
    "ports",
    "port",
    "protocol",
    "env",
    "value",
    "args",
    "grace",
    "strategy",
    "selector",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder",
    "fieldsV1",
    "f:spec",
    "k:{\"name\":\"a\"}",
    ".",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..90).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "a", "b", "replace", "delete", "merge", "TCP", "1", "v1", "Pod", "Apply", "FieldsV1"])
            .prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ]
}

/// Any JSON.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![8 => prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,4}".prop_map(String::from)];
    scalar().prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
