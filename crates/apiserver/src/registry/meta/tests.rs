use super::*;
use crate::registry::namespaced;
use serde_json::json;

fn object(meta: Value) -> Object {
    Object::from_value(json!({"metadata": meta})).unwrap()
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_name_or_a_prefix_for_one_is_required() {
    let errors = validate(&namespaced("", "v1", "ConfigMap", "configmaps"), &object(json!({"namespace": "a"})));
    assert_eq!(texts(&errors), ["metadata.name: Required value: name or generateName is required"]);
}

#[test]
fn generated_names_end_in_five_random_letters() {
    let name = generated_name(&"a".repeat(70));
    assert_eq!(name.len(), 63);
    assert!(generated_name("gen-").starts_with("gen-"));
}

#[test]
fn generation_counts_up_with_the_spec_only() {
    let old = Object::from_value(json!({"metadata": {"generation": 2}, "spec": {"a": 1}, "status": {}})).unwrap();
    let mut new = old.clone();
    new.0.insert("status".into(), json!({"x": 1}));
    set_generation(Generation::Fields(&["spec"]), &mut new, Some(&old));
    assert_eq!(new.generation(), 2);
    new.0.insert("spec".into(), json!({"a": 2}));
    set_generation(Generation::Fields(&["spec"]), &mut new, Some(&old));
    assert_eq!(new.generation(), 3);
}

#[test]
fn two_controllers_are_refused_and_shown_as_go_declares_them() {
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": true});
    let mut obj = object(json!({"name": "a", "namespace": "n", "ownerReferences": [owner("x"), owner("y")]}));
    let resource = namespaced("", "v1", "ConfigMap", "configmaps");
    let text = "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\",\"uid\":\"u\",\
                \"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"y\",\"uid\":\"u\",\"controller\":true}]: \
                Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/x and ConfigMap/y";
    assert_eq!(texts(&validate(&resource, &obj)), [text]);
    obj.meta_mut().insert("ownerReferences".into(), json!([{"apiVersion": "v1", "kind": "Event", "name": "", "uid": "u"}]));
    assert_eq!(validate(&resource, &obj).len(), 2);
}

#[test]
fn a_changed_uid_is_refused_and_a_missing_one_carried_over() {
    let old = object(json!({"name": "a", "uid": "1", "resourceVersion": "5"}));
    let mut new = object(json!({"name": "a", "resourceVersion": "5"}));
    carry_over(&mut new, &old);
    assert!(validate_update(&new, &old, true).is_empty());
    new.set_uid("2");
    assert_eq!(texts(&validate_update(&new, &old, true)), ["metadata.uid: Invalid value: \"2\": field is immutable"; 2]);
}

#[test]
fn an_update_cannot_change_when_an_object_was_made() {
    let old = object(json!({"name": "a", "uid": "1", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}));
    let mut new = object(json!({"name": "a", "resourceVersion": "5", "creationTimestamp": "2020-01-01T00:00:00Z"}));
    carry_over(&mut new, &old);
    assert_eq!(new, old);
}

#[test]
fn finalizers_are_checked_in_updates_too() {
    let old = object(json!({"name": "a", "resourceVersion": "5"}));
    let new = object(json!({"name": "a", "resourceVersion": "5", "finalizers": ["nodomain", "a b/c", "orphan"]}));
    let found = texts(&validate_update(&new, &old, true));
    assert!(found[0].starts_with(r#"metadata.finalizers: Invalid value: "a b/c": "#), "{found:?}");
    let last = r#"metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified"#;
    assert_eq!((found.len(), found[1].as_str()), (2, last));
    assert_eq!(validate_update(&new, &old, false).len(), 1);
}

#[test]
fn owners_name_one_version_of_one_group() {
    let owner = |version: &str| object(json!({"ownerReferences": [{"apiVersion": version, "kind": "Event", "name": "x", "uid": "u"}]}));
    let check = |version: &str| texts(&owners(&owner(version), &Path::new("o")));
    assert_eq!(check("events.k8s.io/v1"), Vec::<String>::new());
    assert_eq!(check("apps/"), [r#"o.apiVersion: Invalid value: "apps/": version must not be empty"#]);
    assert_eq!(check("a/b/c"), [r#"o.apiVersion: Invalid value: "a/b/c": version must not be empty"#]);
    assert!(check("/v1")[0].ends_with("/v1, Kind=Event is disallowed from being an owner"));
}

#[test]
fn a_status_keeps_some_metadata_or_all_that_users_set() {
    let old = object(json!({"name": "a", "labels": {"l": "1"}, "resourceVersion": "5"}));
    let new = object(json!({"name": "a", "labels": {"l": "2"}, "annotations": {"a": "2"}, "resourceVersion": "6"}));
    let kept = |fields: &[&str]| {
        let mut obj = new.clone();
        keep(&mut obj, &old, fields);
        obj
    };
    assert_eq!(kept(&["metadata.labels"]).annotations().len(), 1);
    assert_eq!(kept(&["metadata"]), object(json!({"name": "a", "labels": {"l": "1"}, "resourceVersion": "6"})));
}

#[test]
fn repeated_owners_are_dropped_with_a_warning() {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": uid});
    let mut obj = object(json!({"ownerReferences": [owner("1"), owner("2"), owner("1")]}));
    let warning = dedup_owners(&mut obj, false).unwrap();
    assert!(warning.starts_with(".metadata.ownerReferences contains duplicate entries; ") && warning.ends_with("observed: 1"), "{warning}");
    assert_eq!(obj.owner_references().len(), 2);
    assert_eq!(dedup_owners(&mut obj, true), None);
}
