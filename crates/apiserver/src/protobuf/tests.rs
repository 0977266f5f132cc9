use apimachinery::schema::{Arena, Id, Kind};
use serde_json::json;

use super::*;
use crate::schema::builtin;

/// A field of bytes as the specification of the wire format has it, independent of the codec.
fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(payload.len()).unwrap()];
    out.extend_from_slice(payload);
    out
}

fn sealed(api_version: &[u8], kind: &[u8], raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

/// An `ObjectMeta` with a name: what is no pointer is always there (generateName, namespace, selfLink, uid, resourceVersion, generation,
/// creationTimestamp).
fn metadata(name: &[u8]) -> Vec<u8> {
    let empty = [3, 4, 5, 6].map(|number| field(number, b"")).concat();
    [field(1, name), field(2, b""), empty, vec![0x38, 0], field(8, b"")].concat()
}

#[test]
fn a_config_map_is_written_as_go_writes_it_and_read_with_its_type() {
    let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {"k": "v", "a": ""}});
    let entries = [field(2, &[field(1, b"a"), field(2, b"")].concat()), field(2, &[field(1, b"k"), field(2, b"v")].concat())];
    let body = sealed(b"v1", b"ConfigMap", &[field(1, &metadata(b"x")), entries.concat()].concat());
    assert_eq!(encode(&value).unwrap(), body);
    assert_eq!(read_stored(&body).unwrap().into_value(), value);
}

#[test]
fn embedded_structs_numbers_and_choices_find_their_place() {
    let volume = [field(1, b"v"), field(2, &field(2, &field(1, b"Memory")))].concat();
    let value = decode(&builtin("io.k8s.api.core.v1.PodSpec"), &field(1, &volume)).unwrap();
    assert_eq!(value, json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}));
    let port = [vec![0x18, 80], field(4, &[0x08, 0, 0x10, 80])].concat();
    let value = decode(&builtin("io.k8s.api.core.v1.ServicePort"), &port).unwrap();
    assert_eq!(value, json!({"port": 80, "targetPort": 80}));
}

/// Encodes an object and reads it back as its schema has it.
fn again(value: &Value) -> Value {
    read_stored(&encode(value).unwrap()).unwrap().into_value()
}

#[test]
fn values_of_many_types_come_back() {
    let schema = json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string", "default": "x", "enum": ["x", null, 1]}},
            "tuple": {"items": [{"type": "string"}, {}], "additionalItems": false},
            "map": {"additionalProperties": {"type": "number", "maximum": 1.5}, "x-kubernetes-preserve-unknown-fields": true},
        },
        "dependencies": {"list": ["map"], "map": {"type": "object"}},
    });
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}});
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]});
    let (conditions, stored) = (Value::Null, Value::Null);
    let accepted = json!({"plural": "", "kind": ""});
    let crd = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "widgets.example.com"},
        "spec": spec, "status": {"acceptedNames": accepted, "conditions": conditions, "storedVersions": stored},
    });
    assert_eq!(again(&crd), crd);
    let user = json!({"username": "u", "extra": {"k": ["a", "b"], "none": []}});
    let review =
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}, "status": {"user": user}});
    assert_eq!(again(&review), review);
    let lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"creationTimestamp": "1969-12-31T23:59:59Z"},
        "spec": {"renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 0},
    });
    assert_eq!(again(&lease), lease);
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {}, "data": {"a": "", "b": "AAEC"}});
    assert_eq!(again(&secret), secret);
}

/// A value of a type with every field set. Schemas, the only types that hold themselves, do so once.
fn filled(arena: &Arena, id: Id, around: &[Id]) -> Option<Value> {
    let node = arena.node(id);
    let within = [around, &[id]].concat();
    Some(match &node.kind {
        Kind::Object(_) if around.iter().filter(|outer| **outer == id).count() > 1 => return None,
        Kind::Object(fields) => {
            let unnumbered = FORMS.unnumbered(&node.name)?;
            let numbered = fields.iter().filter(|field| !unnumbered.contains(&field.name.as_str()));
            let own = numbered.filter_map(|field| Some((field.name.clone(), filled(arena, field.node, &within)?)));
            Value::Object(own.collect())
        }
        Kind::Map(inner) => json!({"a.b/c": filled(arena, *inner, around)?}),
        Kind::Array(inner) => json!([filled(arena, *inner, around)?]),
        Kind::ObjectOr(inner) => filled(arena, *inner, around)?,
        Kind::Any | Kind::AnyObject => json!({"any": [1, null, "x"]}),
        Kind::String => json!("text"),
        Kind::Int32 => json!(i32::MIN),
        Kind::Int64 => json!(i64::MAX),
        Kind::Number => json!(-0.5),
        Kind::Boolean => json!(true),
        Kind::IntOrString => json!("50%"),
        Kind::Quantity => json!("1500m"),
        Kind::Time => json!("2026-01-02T03:04:05Z"),
        Kind::MicroTime => json!("2026-01-02T03:04:05.678901Z"),
        Kind::Bytes => json!("AAEC/w=="),
    })
}

#[test]
fn every_field_of_every_definition_comes_back() {
    let arena = Definitions::builtin().arena();
    let mut kinds = 0;
    for (name, id) in arena.names().filter_map(|name| Some((name, arena.find(name)?))) {
        let Kind::Object(_) = arena.node(id).kind else { continue };
        let Some(value) = filled(arena, id, &[]) else { continue };
        let value = builtin(name).decode_value(&value).unwrap().value;
        let read = FORMS.decode(name, &FORMS.encode(name, &value).unwrap()).unwrap();
        assert!(builtin(name).decode_value(&read).unwrap().value == value, "{name} comes back as {read}");
        kinds += 1;
    }
    assert!(kinds > 550, "{kinds}");
}

#[test]
fn lists_hold_their_items_one_by_one() {
    let item = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}});
    let head = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}});
    let items = (0..2).map(|_| Ok(Object::from_value(item.clone()).unwrap()));
    let meta = [field(1, b""), field(2, b"7"), field(3, b"")].concat();
    let items_of = field(2, &field(1, &metadata(b"x")));
    let expected = sealed(b"v1", b"ConfigMapList", &[field(1, &meta), items_of.repeat(2)].concat());
    assert_eq!(encode_list(&head, items).unwrap(), expected);
}

#[test]
fn metadata_of_any_kind_is_written_in_the_order_of_its_version() {
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}});
    let message = field(1, &metadata(b"x"));
    assert_eq!(encode(&partial).unwrap(), sealed(b"meta.k8s.io/v1", b"PartialObjectMetadata", &message));
    let list = |version: &str| json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": {}, "items": [partial]});
    let meta = [1, 2, 3].map(|number| field(number, b"")).concat();
    let (version, kind) = ("meta.k8s.io/v1beta1", "PartialObjectMetadataList");
    let old = [field(1, &message), field(2, &meta)].concat();
    assert_eq!(encode(&list(version)).unwrap(), sealed(version.as_bytes(), kind.as_bytes(), &old));
    let new = [field(1, &meta), field(2, &message)].concat();
    assert_eq!(encode(&list("meta.k8s.io/v1")).unwrap(), sealed(b"meta.k8s.io/v1", kind.as_bytes(), &new));
}

#[test]
fn failures_and_discovery_have_a_form_and_unknown_kinds_none() {
    let status = serde_json::to_value(Status::not_found_path()).unwrap();
    let raw = encode(&status).unwrap();
    let unknown = open(&raw).unwrap();
    assert_eq!((unknown.api_version, unknown.kind), ("v1", "Status"));
    let read = decode(&builtin("io.k8s.apimachinery.pkg.apis.meta.v1.Status"), unknown.raw).unwrap();
    assert_eq!((&read["status"], &read["code"], &read["message"]), (&json!("Failure"), &json!(404), &status["message"]));
    let pods = json!({"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"]});
    let list = encode(&json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [pods]})).unwrap();
    let verbs = field(4, &[field(1, b"get"), field(1, b"list")].concat());
    let names = [field(1, b"pods"), vec![0x10, 1], field(3, b"Pod"), verbs, [6, 8, 9, 10].map(|number| field(number, b"")).concat()];
    assert_eq!(list, sealed(b"v1", b"APIResourceList", &[field(1, b"v1"), field(2, &names.concat())].concat()));
    let refused = encode(&json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {}})).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (406, "NotAcceptable"));
}

#[test]
fn every_field_of_every_definition_has_a_number() {
    // Not part of the API's own kinds: the answer of /version.
    let without = ["io.k8s.apimachinery.pkg.version.Info"];
    for name in Definitions::builtin().arena().names().filter(|name| !without.contains(name)) {
        let schema = builtin(name);
        if matches!(schema.node().kind, Kind::Object(_)) {
            let missing = FORMS.unnumbered(name).unwrap_or_else(|| panic!("{name} has no numbers"));
            assert!(missing.is_empty() || missing == ["apiVersion", "kind"], "{name} lacks {missing:?}");
        }
    }
}

/// Compares the table with the numbers read off the real server, where those lie beside the checkout. A field's name there is its name
/// in the `.proto` file, and a struct that is embedded in Go is a field of its type.
#[test]
fn every_number_is_the_one_of_the_real_server() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/facts/protobuf-fields.json");
    let Ok(text) = std::fs::read_to_string(place) else {
        eprintln!("skipped: no facts beside the checkout");
        return;
    };
    let facts: Value = serde_json::from_str(&text).unwrap();
    let plain = |name: &str| name.replace(['$', '-'], "").to_lowercase();
    let last = |name: &str| name.rsplit('.').next().unwrap().to_owned();
    let (mut same, mut wrong) = (0, Vec::new());
    for line in include_str!("fields.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let message = words.next().unwrap();
        let Some(fields) = facts[format!("k8s.io.{}", message.replace('-', "_"))].as_object() else { continue };
        for word in words {
            let (name, number) = word.split_once('=').unwrap();
            let found = fields.iter().any(|(known, field)| {
                let named = match name.strip_prefix('@') {
                    Some(embedded) => last(field["type"].as_str().unwrap()) == last(embedded),
                    None => plain(known) == plain(name),
                };
                named && field["n"].as_u64() == number.parse().ok()
            });
            if found { same += 1 } else { wrong.push(format!("{message} {word}")) }
        }
    }
    assert!(wrong.is_empty() && same > 2000, "{same} are right, others are not: {wrong:#?}");
}

/// Compares with the files that upstream keeps for each release (`testdata/v1.36.0` of k8s.io/api): every kind, every field filled, in
/// JSON and in protobuf.
#[test]
#[ignore = "needs K8S_API_TESTDATA, a directory of k8s.io/api's testdata"]
fn upstreams_own_files_are_written_byte_for_byte_and_read() {
    let place = std::env::var("K8S_API_TESTDATA").unwrap();
    let files = std::fs::read_dir(place).unwrap().map(|file| file.unwrap().path());
    // What a later release makes of a file has its fields.
    let own = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "pb") && !path.to_string_lossy().contains("roundtrip");
    let (mut same, mut wrong) = (0, Vec::new());
    for file in files.filter(own) {
        let value: Value = serde_json::from_slice(&std::fs::read(file.with_extension("json")).unwrap()).unwrap();
        let (api_version, kind) = type_of(&value);
        let Some(schema) = Definitions::builtin().get(&definition_of(api_version, kind)) else { continue };
        let bytes = std::fs::read(&file).unwrap();
        let expected = schema.decode_value(&value).unwrap().value;
        match (encode(&value), read_stored(&bytes).map(Object::into_value)) {
            (Ok(written), Ok(read)) if written == bytes && read == expected => same += 1,
            (written, read) => wrong.push(format!("{file:?}: {:?} {:?}", written.map(|w| w == bytes), read.map(|r| r == expected))),
        }
    }
    assert!(wrong.is_empty() && same > 60, "{same} files are the same, others are not: {wrong:#?}");
}
