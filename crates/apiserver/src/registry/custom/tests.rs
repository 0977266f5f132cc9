use serde_json::json;

use super::*;
use crate::registry::{Conversion, apiextensions::view::Definition};

/// A definition with these versions, established.
fn definition(versions: Value) -> Object {
    let names = json!({"plural": "ws", "singular": "w", "kind": "W", "listKind": "WList", "shortNames": ["wx"], "categories": ["all"]});
    Object::from_value(json!({
        "metadata": {"name": "ws.stable.example.com"},
        "spec": {"group": "stable.example.com", "scope": "Namespaced", "names": names, "versions": versions},
        "status": {"acceptedNames": names, "storedVersions": ["v1"], "conditions": [{"type": "NamesAccepted", "status": "True"}]},
    }))
    .unwrap()
}

fn version(name: &str, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
}

fn spec(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn messages(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_version_becomes_a_resource_under_its_accepted_names() {
    let definition = definition(json!([version("v1", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))]));
    let made = build(Definition(&definition)).0.remove(0);
    let resource = made.resource;
    assert_eq!((&*resource.kind, &*resource.list_kind, &*resource.plural, &*resource.singular), ("W", "WList", "ws", "w"));
    assert_eq!((resource.short_names, resource.categories), (vec!["wx".to_owned()], vec!["all".to_owned()]));
    assert_eq!(resource.definition, "com.example.stable.v1.W");
    assert_eq!(resource.storage_prefix, "stable.example.com/ws");
    assert!(resource.conversion.is_none(), "what is stored can be answered as it is");
}

#[test]
fn a_stored_version_that_is_not_served_is_for_the_server_alone() {
    let mut old = version("v1", spec(json!({})));
    old["served"] = false.into();
    let definition = definition(json!([old, version("v2", spec(json!({})))]));
    let internal: Vec<bool> = build(Definition(&definition)).0.iter().map(|version| version.resource.is_internal()).collect();
    assert_eq!(internal, [true, false]);
}

#[test]
fn a_deprecated_version_names_a_better_one() {
    let mut versions = [version("v1beta1", spec(json!({}))), version("v1", spec(json!({}))), version("v2", spec(json!({})))];
    versions[0]["deprecated"] = true.into();
    versions[2]["deprecated"] = true.into();
    versions[2]["deprecationWarning"] = "use another".into();
    let definition = definition(json!(versions));
    let warnings: Vec<_> = build(Definition(&definition)).0.into_iter().map(|version| version.resource.deprecation).collect();
    let first = "stable.example.com/v1beta1 W is deprecated; use stable.example.com/v1 W";
    assert_eq!(warnings, [Some(first.to_owned()), None, Some("use another".to_owned())]);
}

#[test]
fn an_object_is_read_by_the_schema_of_now_and_rewritten_for_another_version() {
    let (first, second) = (json!({"x": {"type": "integer"}, "y": {"type": "string", "default": "new"}}), json!({"x": {"type": "integer"}}));
    let definition = definition(json!([version("v1", spec(first)), version("v2", spec(second))]));
    let versions = build(Definition(&definition)).0;
    let stored =
        object(json!({"apiVersion": "stable.example.com/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {"x": 1, "gone": 1}}));
    let served = |at: usize| {
        let conversion: &dyn Conversion = &**versions[at].resource.conversion.as_ref().unwrap();
        conversion.to_served(stored.clone()).unwrap().into_value()
    };
    assert_eq!(served(0)["spec"], json!({"x": 1, "y": "new"}));
    let second = served(1);
    assert_eq!((&second["apiVersion"], &second["spec"]), (&json!("stable.example.com/v2"), &json!({"x": 1})));
}

#[test]
fn versions_that_only_a_webhook_converts_are_not_mixed_up() {
    let mut definition = definition(json!([version("v1", spec(json!({}))), version("v2", spec(json!({})))]));
    definition.pointer_mut("/spec").unwrap()["conversion"] = json!({"strategy": "Webhook"});
    let versions = build(Definition(&definition)).0;
    let stored = object(json!({"apiVersion": "stable.example.com/v1", "kind": "W", "metadata": {"name": "a"}}));
    let to = |at: usize| versions[at].resource.conversion.as_ref().unwrap().to_served(stored.clone());
    assert!(to(0).is_ok());
    assert_eq!(to(1).unwrap_err().code, 500);
}

#[test]
fn selectable_fields_are_read_with_their_defaults() {
    let mut version = version("v1", spec(json!({"color": {"type": "string", "default": "red"}, "n": {"type": "integer"}})));
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}]);
    let definition = definition(json!([version]));
    let fields = build(Definition(&definition)).1;
    let stored = object(json!({"apiVersion": "stable.example.com/v1", "kind": "W", "spec": {}}));
    let found: Vec<(String, String)> = fields(&stored).into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
    assert_eq!(found, [("spec.color".to_owned(), "red".to_owned()), ("spec.n".to_owned(), String::new())]);
}

fn strategy(version: Value) -> std::sync::Arc<dyn Strategy> {
    let definition = definition(json!([version]));
    build(Definition(&definition)).0.remove(0).resource.strategy
}

#[test]
fn replicas_must_be_what_a_scale_can_show() {
    let mut version = version("v1", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let scale =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    version["subresources"] = json!({"scale": scale});
    let strategy = strategy(version);
    let check = |value: Value| messages(&strategy.validate(&RequestContext::for_tests(), &object(value)));
    assert!(check(json!({"spec": {"replicas": 2}})).is_empty());
    assert_eq!(check(json!({"spec": {"replicas": -1}})), [".spec.replicas: Invalid value: -1: should be a non-negative integer"]);
    assert_eq!(
        check(json!({"spec": {"replicas": "x"}, "status": {"selector": 1}})),
        [
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
            ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
        ]
    );
}

#[test]
fn rules_that_were_not_checked_keep_an_object_out() {
    let mut rules = spec(json!({"a": {"type": "string"}}));
    rules["properties"]["spec"]["x-kubernetes-validations"] = json!([{"rule": "has(self.a)"}]);
    let errors = strategy(version("v1", rules)).validate(&RequestContext::for_tests(), &object(json!({"spec": {}})));
    assert_eq!(messages(&errors), ["<nil>: Internal error: x-kubernetes-validations cannot be evaluated by this server"]);
}

#[test]
fn embedded_resources_need_a_type_and_lists_their_keys() {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
    let strategy = strategy(version("v1", spec(json!({"template": template, "l": list}))));
    let check = |spec: Value| messages(&strategy.validate(&RequestContext::for_tests(), &object(json!({"spec": spec}))));
    assert_eq!(
        check(json!({"template": {"kind": "", "metadata": {"name": "a/b"}}, "l": [{"k": "1"}, {"k": "1"}]})),
        [
            "spec.template.apiVersion: Required value",
            "spec.template.kind: Invalid value: \"\": must not be empty",
            "spec.template.metadata.name: Invalid value: \"a/b\": may not contain '/'",
            r#"spec.l[1]: Duplicate value: {"k":"1"}"#,
        ]
    );
    assert!(check(json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}})).is_empty());
}

#[test]
fn unqualified_finalizers_are_warned_of_when_they_are_new() {
    let strategy = strategy(version("v1", spec(json!({}))));
    let with = |finalizers: Value| object(json!({"metadata": {"name": "a", "finalizers": finalizers}}));
    let ctx = RequestContext::for_tests();
    let warned = strategy.warnings_on_create(&ctx, &with(json!(["x", "a.b", "example.com/f", "orphan"])));
    assert_eq!(
        warned,
        [
            "metadata.finalizers: \"x\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
            "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts \
             with other finalizer writers",
        ]
    );
    assert!(strategy.warnings_on_update(&ctx, &with(json!(["x"])), &with(json!(["x", "y"]))).is_empty());
}

#[test]
fn columns_show_values_of_their_type_only() {
    let mut version = version("v1", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    version["additionalPrinterColumns"] = json!([
        {"name": "X", "type": "integer", "jsonPath": ".spec.x", "description": "the x"},
        {"name": "Words", "type": "string", "jsonPath": ".spec.words", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    ]);
    let strategy = strategy(version);
    let columns = strategy.columns();
    assert_eq!((&*columns[0].name, &*columns[1].description, columns[2].priority), ("Name", "the x", 1));
    assert_eq!(columns[2].description, "Custom resource definition column (in JSONPath format): .spec.words");
    let now = jiff::Timestamp::from_second(3600).unwrap();
    let cells = |spec: Value| strategy.cells(&object(json!({"metadata": {"name": "a"}, "spec": spec})), now);
    assert_eq!(
        cells(json!({"x": 3, "words": {"a": 1}, "since": "1970-01-01T00:00:00Z"})),
        [json!("a"), json!(3), json!(r#"{"a":1}"#), json!("60m")]
    );
    assert_eq!(cells(json!({"x": "3", "since": "soon"})), [json!("a"), Value::Null, Value::Null, json!("<invalid>")]);
}
