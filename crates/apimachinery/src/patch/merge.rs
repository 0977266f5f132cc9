//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::{Error, Patched, read_object};

/// Applies a merge patch as it was sent.
pub fn apply(doc: &Value, patch: &[u8]) -> Result<Patched, Error> {
    let (patch, strict) = read_object(patch, "error decoding patch: ")?;
    if patch.is_null() {
        return Err(Error::Malformed("Invalid JSON Patch".into()));
    }
    let mut value = doc.clone();
    merge(&mut value, &patch);
    Ok(Patched { value, patch, strict })
}

/// Merges `patch` into `doc`: objects merge, null removes, anything else replaces.
pub fn merge(doc: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *doc = patch.clone();
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(fields) = doc else { return };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// The smallest merge patch that turns `from` into `to`; `None` if they are equal.
///
/// A merge patch cannot say null: members of `to` that are null do not survive the trip.
pub fn create(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (from, to) else {
        return Some(to.clone());
    };
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| match before.get(key) {
        Some(old) => create(old, value).map(|change| (key.clone(), change)),
        None => Some((key.clone(), value.clone())),
    });
    Some(Value::Object(removed.chain(changed).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(doc: Value, patch: &str) -> Value {
        apply(&doc, patch.as_bytes()).unwrap().value
    }

    #[test]
    fn null_removes_and_new_objects_lose_their_nulls() {
        assert_eq!(merged(json!({"a": {"x": 1, "y": 2}, "b": 1}), r#"{"a":{"x":null},"b":null}"#), json!({"a": {"y": 2}}));
        assert_eq!(merged(json!({}), r#"{"n":{"x":null,"y":{"z":null}}}"#), json!({"n": {"y": {}}}));
    }

    #[test]
    fn lists_are_replaced_whole() {
        assert_eq!(merged(json!({"a": [1, 2]}), r#"{"a":[{"x":null}]}"#), json!({"a": [{"x": null}]}));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let message = |patch: &str| apply(&json!({}), patch.as_bytes()).unwrap_err().to_string();
        assert_eq!(message("not json"), "error decoding patch: invalid character 'o' in literal null (expecting 'u')");
        assert_eq!(message("[]"), "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}");
        assert_eq!(message(""), "error decoding patch: unexpected end of JSON input");
        assert_eq!(message("null"), "Invalid JSON Patch");
    }

    #[test]
    fn duplicates_in_the_patch_are_told() {
        let patched = apply(&json!({}), br#"{"spec":{"a":1,"a":2}}"#).unwrap();
        assert_eq!((patched.value, patched.strict), (json!({"spec": {"a": 2}}), vec!["duplicate field \"spec.a\"".to_owned()]));
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from), "[a-c]?".prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_created_patch_leads_from_one_document_to_the_other(from in documents(), to in documents()) {
            let mut value = from.clone();
            if let Some(patch) = create(&from, &to) {
                merge(&mut value, &patch);
            }
            prop_assert_eq!(value, to);
        }

        #[test]
        fn merging_twice_changes_nothing_more(doc in documents(), patch in documents()) {
            let mut once = doc;
            merge(&mut once, &patch);
            let mut twice = once.clone();
            merge(&mut twice, &patch);
            prop_assert_eq!(twice, once);
        }
    }
}
