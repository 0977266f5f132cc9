use super::*;

fn definition(spec: Value) -> Object {
    let mut whole = json!({
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let mut obj = Object::from_value(json!({"metadata": {"name": "ws.example.com"}, "spec": whole, "status": {}})).unwrap();
    Definitions.default(&mut obj);
    obj
}

fn with_schema(schema: Value) -> Object {
    definition(json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}))
}

fn texts(errs: &ErrorList) -> Vec<String> {
    errs.iter().map(ToString::to_string).collect()
}

fn errors(obj: &Object) -> Vec<String> {
    texts(&validate(obj, None))
}

fn of_schema(schema: Value) -> Vec<String> {
    let place = "spec.validation.openAPIV3Schema";
    errors(&with_schema(schema)).iter().map(|text| text.replace(place, "@")).collect()
}

fn of_property(property: Value) -> Vec<String> {
    of_schema(json!({"type": "object", "properties": {"a": property}})).iter().map(|text| text.replace("@.properties[a]", "@a")).collect()
}

#[test]
fn names_and_conversion_are_filled_in_and_the_storage_version_is_remembered() {
    let obj = definition(json!({}));
    let names = json!({"plural": "ws", "kind": "W", "singular": "w", "listKind": "WList"});
    assert_eq!(obj.pointer("/spec/names"), Some(&names));
    assert_eq!(obj.pointer("/spec/conversion"), Some(&json!({"strategy": "None"})));
    assert_eq!(obj.pointer("/status/storedVersions"), Some(&json!(["v1"])));
    assert!(errors(&obj).is_empty());
}

#[test]
fn the_name_is_plural_and_group() {
    let mut obj = definition(json!({}));
    obj.set_name("other.example.com");
    assert_eq!(errors(&obj), ["metadata.name: Invalid value: \"other.example.com\": must be spec.names.plural+\".\"+spec.group"]);
}

#[test]
fn group_scope_and_names_are_checked() {
    let obj = definition(
        json!({"group": "example", "scope": "World", "names": {"plural": "ws", "kind": "W", "listKind": "W", "shortNames": ["A"]}}),
    );
    let errors = errors(&obj);
    for expected in [
        "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
        "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"",
        "spec.names.listKind: Invalid value: \"W\": kind and listKind may not be the same",
    ] {
        assert!(errors.iter().any(|error| error == expected), "{expected} is not in {errors:#?}");
    }
    assert!(
        errors.iter().any(|error| error.starts_with("spec.names.shortNames[0]: Invalid value: \"A\": a DNS-1035 label")),
        "{errors:#?}"
    );
}

#[test]
fn just_one_version_is_stored_and_a_stored_one_stays() {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let both = errors(&definition(json!({"versions": [version("v1", true), version("v2", true)]})));
    assert!(both[0].ends_with("must have exactly one version marked as storage version"), "{both:?}");
    assert_eq!(both[1], "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v2");
    let mut moved = definition(json!({"versions": [version("v2", true)]}));
    moved.0.insert("status".into(), json!({"storedVersions": ["v1", "v2"]}));
    let gone = errors(&moved);
    assert!(
        gone[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously"),
        "{gone:?}"
    );
    let twice = errors(&definition(json!({"versions": [version("v1", true), version("v1", false)]})));
    assert!(twice[0].ends_with("must contain unique version names"), "{twice:?}");
}

#[test]
fn what_all_versions_have_alike_is_named_at_the_top() {
    let version =
        |name: &str, schema: Value| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}});
    let (bad, good) = (json!({"type": "object", "nullable": true}), json!({"type": "object"}));
    let alike = errors(&definition(json!({"versions": [version("v1", bad.clone()), version("v2", bad.clone())]})));
    assert_eq!(alike, ["spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"]);
    let apart = errors(&definition(json!({"versions": [version("v1", good), version("v2", bad)]})));
    assert_eq!(apart, ["spec.versions[1].schema.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"]);
}

#[test]
fn schemas_must_be_structural() {
    assert_eq!(of_schema(json!({"properties": {}})), ["@.type: Required value: must not be empty at the root"]);
    assert_eq!(of_property(json!({})), ["@a.type: Required value: must not be empty for specified object fields"]);
    assert_eq!(of_property(json!({"type": "array"})), ["@a.items: Required value: must be specified"]);
    assert_eq!(
        of_property(json!({"type": "object", "anyOf": [{"properties": {"b": {"type": "string", "minLength": 1}}}]})),
        ["@a.anyOf[0].properties[b].type: Forbidden: must be empty to be structural"]
    );
    assert_eq!(
        of_schema(json!({"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]})),
        ["@.properties[b]: Required value: because it is defined in @.anyOf[0].properties[b]"]
    );
    let either = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert!(of_property(either).is_empty());
    assert_eq!(
        of_schema(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}})),
        [
            "@.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
    let named = json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}});
    assert!(of_schema(json!({"type": "object", "properties": named})).is_empty());
    assert_eq!(
        of_schema(json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ["@.additionalProperties: Forbidden: must not be used at the root"]
    );
    for (pattern, why) in [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("a[b", "missing closing ]: `[b`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
    ] {
        let text =
            format!("@a.pattern: Invalid value: \"{pattern}\": must be a valid regular expression, but isn't: error parsing regexp: {why}");
        assert_eq!(of_property(json!({"type": "string", "pattern": pattern})), [text]);
    }
}

#[test]
fn what_open_api_has_and_custom_resources_have_not_is_forbidden() {
    assert_eq!(of_property(json!({"type": "string", "$ref": "#/x"})), ["@a.$ref: Forbidden: $ref is not supported"]);
    assert_eq!(
        of_property(json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}})),
        ["@a.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"]
    );
    assert_eq!(
        of_property(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
        ["@a.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"]
    );
    assert_eq!(
        of_property(json!({"type": "text"})),
        ["@a.type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""]
    );
}

#[test]
fn list_types_need_lists_and_keys() {
    assert_eq!(
        of_property(json!({"type": "object", "x-kubernetes-list-type": "set"})),
        ["@a.type: Invalid value: \"object\": must be array if x-kubernetes-list-type is specified"]
    );
    assert_eq!(
        of_property(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
        ["@a.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"]
    );
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let map = |keys: Value| json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    assert_eq!(
        of_property(map(json!(["k"]))),
        [
            "@a.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ]
    );
    assert_eq!(
        of_property(map(json!(["n"]))),
        ["@a.x-kubernetes-list-map-keys: Invalid value: [\"n\"]: entries must all be names of item properties"]
    );
}

#[test]
fn defaults_must_keep_the_rules_themselves() {
    assert_eq!(
        of_property(json!({"type": "integer", "minimum": 5, "default": 1})),
        ["@a.default: Invalid value: 1:  in body should be greater than or equal to 5"]
    );
    let unknown = json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}});
    assert_eq!(of_property(unknown), ["@a.default: Invalid value: {\"c\":1}: must not have unknown fields"]);
    let named = json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}});
    assert_eq!(
        of_schema(json!({"type": "object", "properties": named})),
        ["@.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"]
    );
}

#[test]
fn rules_that_cannot_be_evaluated_are_refused_unless_they_are_there_already() {
    let rules = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]});
    let obj = with_schema(json!({"type": "object", "properties": {"a": rules}}));
    assert_eq!(
        of_property(rules.clone()),
        ["@a.x-kubernetes-validations: Forbidden: rules cannot be evaluated by this server, and what they forbid would be stored"]
    );
    assert!(validate(&obj, Some(&obj)).is_empty());
}

#[test]
fn subresources_columns_and_fields_need_paths() {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"o": {"type": "object"}}}}}},
        "subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ""}},
        "additionalPrinterColumns": [{"name": "a", "type": "x", "jsonPath": "spec"}],
        "selectableFields": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}],
    });
    assert_eq!(
        errors(&definition(json!({"versions": [version]}))),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \".x\": should be a json path under .spec",
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec\": must be a simple json path starting with .",
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.a\": is an invalid path: does not refer to a valid field",
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec.o\": must point to a field of type string, boolean or integer. \
             Enum string fields and strings with formats are allowed.",
        ]
    );
}

#[test]
fn a_webhook_must_be_reachable_and_understood() {
    assert_eq!(
        errors(&definition(json!({"conversion": {"strategy": "Webhook"}}))),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value",
        ]
    );
    let webhook = json!({"clientConfig": {"url": "https://a/b"}, "conversionReviewVersions": ["v9"]});
    assert_eq!(
        errors(&definition(json!({"conversion": {"strategy": "Webhook", "webhook": webhook}}))),
        ["spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1"]
    );
}

#[test]
fn kind_and_scope_are_fixed_once_established_and_the_group_always() {
    let old = definition(json!({}));
    let new = definition(json!({"scope": "Cluster"}));
    assert!(validate(&new, Some(&old)).is_empty());
    let mut established = old.clone();
    set_condition(established.0["status"].as_object_mut().unwrap(), json!({"type": "Established", "status": "True"}), None);
    assert_eq!(texts(&validate(&new, Some(&established))), ["spec.scope: Invalid value: \"Cluster\": field is immutable"]);
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let mut status = serde_json::Map::new();
    let at = |seconds| jiff::Timestamp::from_second(seconds).ok();
    set_condition(&mut status, json!({"type": "A", "status": "True", "reason": "x"}), at(1));
    set_condition(&mut status, json!({"type": "A", "status": "True", "reason": "y"}), at(2));
    assert_eq!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
    assert_eq!(status["conditions"][0]["reason"], "y");
    set_condition(&mut status, json!({"type": "A", "status": "False"}), at(3));
    assert_eq!(status["conditions"], json!([{"type": "A", "status": "False", "lastTransitionTime": "1970-01-01T00:00:03Z"}]));
}

#[test]
fn formats_that_are_not_checked_are_told_once() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "format": "odd"}, "b": {"type": "string", "format": "uuid"}}});
    let obj = with_schema(schema);
    assert_eq!(format_warnings(&obj, None), ["unrecognized format \"odd\""]);
    assert!(format_warnings(&obj, Some(&obj)).is_empty());
}
