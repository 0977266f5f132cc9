use super::*;
use crate::field::aggregate;
use serde_json::json;

fn errors(schema: Value, value: Value) -> String {
    let root = json!({"type": "object", "properties": {"spec": schema}});
    let errors = Validator::new(&root).validate(&json!({"spec": value}), &Path::root());
    if errors.is_empty() { String::new() } else { aggregate(&errors) }
}

#[test]
fn types_are_named_as_upstream_names_them() {
    let object = json!({"type": "object"});
    assert_eq!(errors(object, json!("str")), "spec: Invalid value: \"string\": spec in body must be of type object: \"string\"");
    assert_eq!(errors(json!({"type": "integer"}), json!(1.0)), "");
    assert_eq!(
        errors(json!({"type": "integer"}), json!(1.5)),
        "[spec: Invalid value: \"number\": spec in body must be of type integer: \"number\", \
         <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec]"
    );
    let either = json!({"x-kubernetes-int-or-string": true});
    assert_eq!(errors(either, json!([1])), "spec: Invalid value: \"array\": spec in body must be of type integer,string: \"array\"");
    let list = json!({"type": "array", "items": {"type": "integer"}});
    assert_eq!(errors(list, json!([1, "x"])), "spec[1]: Invalid value: \"string\": spec[1] in body must be of type integer: \"string\"");
}

#[test]
fn texts_numbers_and_maps_have_their_limits() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"});
    assert_eq!(errors(text.clone(), json!("a")), "spec: Invalid value: \"a\": spec in body should be at least 2 chars long");
    assert_eq!(errors(text.clone(), json!("aaaaa")), "spec: Too long: may not be more than 4 bytes");
    assert_eq!(errors(text, json!("bb")), "spec: Invalid value: \"bb\": spec in body should match '^a+$'");
    let number = json!({"type": "integer", "minimum": 1, "maximum": 5, "exclusiveMaximum": true});
    assert_eq!(errors(number.clone(), json!(0)), "spec: Invalid value: 0: spec in body should be greater than or equal to 1");
    assert_eq!(errors(number, json!(5)), "spec: Invalid value: 5: spec in body should be less than 5");
    let map = json!({"type": "object", "maxProperties": 2, "minProperties": 1, "additionalProperties": {"type": "integer"}});
    assert_eq!(errors(map.clone(), json!({})), "spec: Invalid value: 0: spec in body should have at least 1 properties");
    assert_eq!(errors(map, json!({"x": 1, "y": 2, "z": 3})), "spec: Too many: 3: must have at most 2 items");
    let allowed = json!({"type": "string", "enum": ["x", "y"]});
    assert_eq!(errors(allowed, json!("z")), "spec: Unsupported value: \"z\": supported values: \"x\", \"y\"");
    let required = json!({"type": "object", "required": ["a", "b"]});
    assert_eq!(errors(required, json!({})), "[spec.a: Required value, spec.b: Required value]");
}

#[test]
fn combinations_tell_which_of_them_failed() {
    let schema = json!({
        "type": "object",
        "anyOf": [{"properties": {"a": {"minimum": 3}}}, {"required": ["b"]}],
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"properties": {"a": {"enum": [13]}}, "required": ["a"]},
    });
    let check = |value| errors(schema.clone(), value);
    assert_eq!(check(json!({"a": 5})), "");
    assert_eq!(
        check(json!({"a": 1})),
        "[<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf), \
         spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 3]"
    );
    assert_eq!(
        check(json!({"a": 5, "b": 1})),
        "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
    );
    assert_eq!(check(json!({"a": 13})), "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)");
}

#[test]
fn what_stays_as_it_was_may_go_on_being_wrong() {
    let part = json!({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 3}}});
    let list = json!({"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let root = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "l": list}});
    let validator = Validator::new(&root);
    let changed = |new: Value, old: &Value| -> Vec<String> {
        validator.validate_update(&new, Some(old), &Path::root()).iter().map(|error| error.field.to_string()).collect()
    };
    let old = json!({"a": 1, "l": [{"name": "x", "n": 1}]});
    assert!(changed(json!({"a": 1, "b": 1, "l": [{"name": "y"}, {"name": "x", "n": 1}]}), &old).is_empty());
    assert_eq!(changed(json!({"a": 2, "l": [{"name": "x", "n": 2}]}), &old), ["a", "l[0].n"]);
}
