use super::*;
use crate::schema::sample;
use serde_json::json;

fn patched(doc: Value, patch: Value) -> Result<Value, Error> {
    apply(&doc, patch.to_string().as_bytes(), &sample::pod()).map(|patched| patched.value)
}

fn containers(patch: Value) -> Value {
    let doc = json!({"spec": {"containers": [
        {"name": "c", "image": "i:1", "args": ["a"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "e", "image": "i:2"},
    ]}});
    patched(doc, json!({"spec": patch})).unwrap()["spec"]["containers"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn items_merge_by_key_and_new_ones_come_where_the_patch_has_them() {
    let merged = containers(json!({"containers": [{"name": "n", "image": "i:3"}, {"name": "c", "image": "i:9"}]}));
    assert_eq!(names(&merged), ["n", "c", "e"]);
    assert_eq!(merged[1]["image"], "i:9");
    assert_eq!(merged[1]["args"], json!(["a"]));
}

#[test]
fn nested_lists_merge_and_null_removes() {
    let merged = containers(json!({"containers": [{"name": "c", "env": [{"name": "B", "value": null}, {"name": "C", "value": "3"}]}]}));
    assert_eq!(merged[0]["env"], json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C", "value": "3"}]));
}

#[test]
fn atomic_lists_are_replaced() {
    let merged = containers(json!({"containers": [{"name": "c", "args": ["x", "y"]}]}));
    assert_eq!(merged[0]["args"], json!(["x", "y"]));
}

#[test]
fn delete_directive_removes_one_item() {
    assert_eq!(names(&containers(json!({"containers": [{"$patch": "delete", "name": "c"}]}))), ["e"]);
}

#[test]
fn replace_directive_replaces_lists_and_maps() {
    let merged = containers(json!({"containers": [{"name": "z"}, {"$patch": "replace"}]}));
    assert_eq!(merged, json!([{"name": "z"}]));
    let doc = json!({"metadata": {"labels": {"a": "b"}}});
    let replaced = patched(doc, json!({"metadata": {"labels": {"$patch": "replace", "q": "r"}}})).unwrap();
    assert_eq!(replaced["metadata"]["labels"], json!({"q": "r"}));
}

#[test]
fn delete_directive_empties_a_map() {
    let doc = json!({"metadata": {"labels": {"a": "b"}}});
    let emptied = patched(doc, json!({"metadata": {"labels": {"$patch": "delete"}}})).unwrap();
    assert_eq!(emptied["metadata"]["labels"], json!({}));
}

#[test]
fn retain_keys_drops_the_rest() {
    let doc = json!({"spec": {"strategy": {"type": "RollingUpdate", "rolling": {"x": "1"}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(patched(doc, patch).unwrap()["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn retain_keys_must_name_what_the_patch_sets() {
    for patch in [json!({"spec": {"$retainKeys": "x"}}), json!({"spec": {"$retainKeys": ["a"], "b": 1}})] {
        assert_eq!(patched(json!({"spec": {}}), patch).unwrap_err(), Error::Malformed("invalid patch format of retainKeys".into()));
    }
}

#[test]
fn element_order_orders_merged_and_untouched_items() {
    let merged = containers(json!({"$setElementOrder/containers": [{"name": "e"}, {"name": "c"}]}));
    assert_eq!(names(&merged), ["e", "c"]);
    let merged = containers(json!({"$setElementOrder/containers": [{"name": "n"}, {"name": "c"}], "containers": [{"name": "n"}]}));
    assert_eq!(names(&merged), ["n", "c", "e"]);
}

#[test]
fn element_order_must_name_the_items_of_the_patch() {
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "e"}], "containers": [{"image": "i:5", "name": "n"}]}});
    let error = patched(json!({"spec": {"containers": [{"name": "e"}]}}), patch).unwrap_err();
    let text = "The order in patch list:\n[map[image:i:5 name:n]]\n doesn't match $setElementOrder list:\n[map[name:e]]\n";
    assert_eq!(error, Error::Failed(text.into()));
}

#[test]
fn scalars_merge_as_sets_and_can_be_deleted_from() {
    let doc = json!({"metadata": {"finalizers": ["a/x", "a/y"]}});
    let added = patched(doc.clone(), json!({"metadata": {"finalizers": ["a/y", "a/z"]}})).unwrap();
    assert_eq!(added["metadata"]["finalizers"], json!(["a/x", "a/y", "a/z"]));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"], "$setElementOrder/finalizers": ["a/y"]}});
    assert_eq!(patched(doc, patch).unwrap()["metadata"]["finalizers"], json!(["a/y"]));
}

#[test]
fn directives_in_new_values_are_not_kept() {
    let patch = json!({"spec": {"containers": [{"name": "a"}, {"$patch": "delete", "name": "b"}], "strategy": {"$retainKeys": ["type"], "type": "x"}}});
    let merged = patched(json!({}), patch).unwrap();
    assert_eq!(merged["spec"], json!({"containers": [{"name": "a"}], "strategy": {"type": "x"}}));
}

#[test]
fn values_of_another_type_replace() {
    let merged = patched(json!({"spec": {"containers": []}}), json!({"spec": "x"})).unwrap();
    assert_eq!(merged["spec"], "x");
}

#[test]
fn what_cannot_be_done_is_told_in_upstreams_words() {
    let error = |patch| {
        let doc = json!({"spec": {"containers": [{"name": "c"}]}});
        patched(doc, json!({"spec": patch})).unwrap_err().to_string()
    };
    assert_eq!(error(json!({"$patch": "frobnicate"})), "unknown patch type: frobnicate in map: map[$patch:frobnicate]");
    assert_eq!(error(json!({"containers": [{"$patch": "merge", "name": "e"}]})), "merging lists cannot yet be specified in the patch");
    assert_eq!(error(json!({"containers": [{"image": "i"}]})), "map: map[image:i] does not contain declared merge key: name");
    let malformed = apply(&json!({}), b"[]", &sample::pod()).unwrap_err().to_string();
    assert_eq!(malformed, "json: cannot unmarshal array into Go value of type map[string]interface {}");
}
