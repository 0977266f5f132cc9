use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, sample};

/// Numbers for the sample kind, `PodSpec.class` and `PodSpec.count` lying in an embedded struct.
const NUMBERS: &str = "\
# a comment
io.test.v1.ObjectMeta name=1 labels=11 annotations=12 created=8 finalizers=14 managedFields=17 uid=5
io.test.v1.Port name=1 port=3 protocol=4
io.test.v1.Resources limits=1
io.test.v1.Env name=1 value=2
io.test.v1.Container name=1 image=2 args=4 ports=6 env=7 resources=8 pull=14 limits=200 port=201
io.test.v1.Strategy type=1 rolling=2
io.test.v1.Selector matchLabels=1
io.test.v1.Embedded class=1 count=2 absent=3
io.test.v1.PodSpec volumes=1 containers=2 grace=4 selector=7 host=11 strategy=12 @io.test.v1.Embedded=19 @unknown=20
io.test.v1.Pod metadata=1 spec=2
io.test.v1.Missing name=1";

fn forms() -> (Schema, Forms) {
    let schema = sample::pod();
    let forms = Forms::read(schema.arena(), NUMBERS);
    (schema, forms)
}

/// The object as its schema reads it.
fn normal(schema: &Schema, value: &Value) -> Value {
    schema.decode_value(value).unwrap().value
}

#[test]
fn values_are_written_even_where_empty_and_pointers_only_where_set() {
    let (_, forms) = forms();
    let bytes = forms.encode("io.test.v1.PodSpec", &json!({"grace": 0, "containers": [{"name": "c"}]})).unwrap();
    let container = [10, 1, b'c', 18, 0, 66, 0, 114, 0, 202, 12, 6, 8, 0, 16, 0, 26, 0];
    let mut expected = vec![18, container.len() as u8];
    expected.extend(container);
    // grace, host, and the embedded struct with its one value that is no pointer.
    expected.extend([32, 0, 88, 0, 154, 1, 2, 16, 0]);
    assert_eq!(bytes, expected);
}

#[test]
fn long_messages_and_negative_numbers_have_their_length() {
    let (schema, forms) = forms();
    let pod = json!({"metadata": {"name": "n".repeat(300)}, "spec": {"grace": -1, "count": -7, "containers": null}});
    let bytes = forms.encode(schema.name(), &pod).unwrap();
    assert_eq!(bytes[..5], [10, 179, 2, 10, 172]);
    let read = normal(&schema, &forms.decode(schema.name(), &bytes).unwrap());
    assert_eq!(read, normal(&schema, &pod));
    assert_eq!(read["spec"]["count"], -7);
}

#[test]
fn unknown_numbers_are_skipped_and_repeated_messages_merge() {
    let (_, forms) = forms();
    let unknown = [0xfa, 1, 1, b'x', 0x80, 2, 5, 0x89, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0x95, 2, 1, 2, 3, 4];
    let twice = [10, 3, 10, 1, b'a', 10, 3, 42, 1, b'u'];
    let read = forms.decode("io.test.v1.Pod", &[&unknown[..], &twice].concat()).unwrap();
    assert_eq!(read, json!({"metadata": {"name": "a", "uid": "u"}}));
}

#[test]
fn absent_keys_and_values_of_maps_are_empty() {
    let (_, forms) = forms();
    assert_eq!(forms.decode("io.test.v1.Selector", &[10, 0]).unwrap(), json!({"matchLabels": {"": ""}}));
    assert_eq!(forms.decode("io.test.v1.Resources", &[10, 3, 10, 1, b'c']).unwrap(), json!({"limits": {"c": "0"}}));
}

#[test]
fn what_is_no_message_is_refused() {
    let (_, forms) = forms();
    let error = |bytes: &[u8]| forms.decode("io.test.v1.Pod", bytes).unwrap_err().to_string();
    assert_eq!(error(&[10, 127, 1]), "unexpected EOF");
    assert_eq!(error(&[8, 1]), "proto: wrong wireType = 0 for field metadata");
    assert_eq!(error(&[10, 3, 10, 1, 0xff]), "proto: invalid UTF-8");
    assert_eq!(error(&[11]), "proto: wrong wireType = 3 for field number 1");
    assert_eq!(error(&[10, 9, 66, 7, 8, 255, 255, 255, 255, 255, 63]), "proto: field created is not an instant");
    let missing = forms.encode("io.test.v1.Missing", &json!({})).unwrap_err();
    assert!(missing.to_string().starts_with("object *io.test.v1.Missing does not implement the protobuf marshalling interface"));
    let wrong = forms.encode("io.test.v1.Pod", &json!({"metadata": {"name": 1}})).unwrap_err();
    assert_eq!(wrong.to_string(), "proto: field name is not a text");
}

#[test]
fn what_is_read_can_be_stored_and_read_again() {
    let (_, forms) = forms();
    let nested = |depth: usize| {
        let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let (mut raw, mut entry, mut metadata, mut pod) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        wire::put_bytes(&mut raw, 1, json.as_bytes());
        wire::put_bytes(&mut entry, 17, &raw);
        wire::put_bytes(&mut metadata, 1, b"p");
        metadata.extend(entry);
        wire::put_bytes(&mut pod, 1, &metadata);
        forms.decode("io.test.v1.Pod", &pod)
    };
    // The object, its metadata and the list are three levels.
    let deepest = nested(crate::raw::MAX_DEPTH - 3).unwrap().to_string();
    assert!(serde_json::from_str::<Value>(&deepest).is_ok() && crate::raw::parse_json(deepest.as_bytes()).is_ok());
    assert!(matches!(nested(crate::raw::MAX_DEPTH - 2), Err(Error::Depth)));
}

#[test]
fn envelopes_open_to_what_was_sealed() {
    let sealed = seal("apps/v1", "Deployment", b"raw");
    assert!(is_sealed(&sealed));
    assert_eq!(open(&sealed).unwrap(), Unknown { api_version: "apps/v1", kind: "Deployment", raw: b"raw" });
    let error = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "empty data");
    assert_eq!(error(b"k8s\0"), "empty body");
    assert_eq!(error(b"{}"), "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
}

#[test]
fn events_are_framed_by_their_length() {
    assert_eq!(event("ADDED", b"xyz"), [&[0, 0, 0, 14, 10, 5][..], b"ADDED", &[18, 5, 10, 3], b"xyz"].concat());
}

#[test]
fn fields_without_a_number_are_told() {
    let (_, forms) = forms();
    assert_eq!(forms.unnumbered("io.test.v1.Pod"), Some(vec!["apiVersion", "kind"]));
    assert_eq!(forms.unnumbered("io.test.v1.PodSpec"), Some(vec![]));
    assert_eq!(forms.unnumbered("io.test.v1.Missing"), None);
}

// Protobuf does not tell an empty list or map from none, so none are generated where the schema does.
fn texts() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z]{0,3}", "\\PC{0,140}", 1..4).prop_map(|map| json!(map))
}

fn quantities() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z]{1,3}", prop_oneof![Just("0"), Just("100m"), Just("1Gi")], 0..3).prop_map(|map| json!(map))
}

fn containers() -> impl Strategy<Value = Value> {
    let port = prop_oneof![any::<i32>().prop_map(Value::from), "[a-z]{0,4}".prop_map(Value::from)];
    let ports = prop::collection::vec(any::<i32>().prop_map(|port| json!({"port": port, "protocol": "UDP"})), 0..3);
    let container = ("[a-z]{0,9}", texts(), quantities(), port, ports, prop::collection::vec("\\PC{0,5}", 0..3));
    let container = container.prop_map(|(name, env, limits, port, ports, args)| {
        let env: Vec<Value> = env.as_object().unwrap().iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({"name": name, "env": env, "resources": {"limits": limits}, "limits": limits, "port": port, "ports": ports, "args": args})
    });
    prop::collection::vec(container, 1..3).prop_map(Value::from)
}

fn pods() -> impl Strategy<Value = Value> {
    let class = prop::option::of("[a-z]{0,3}");
    let spec = (containers(), texts(), any::<Option<i64>>(), any::<i32>(), any::<bool>(), class);
    let spec = spec.prop_map(|(containers, labels, grace, count, host, class)| {
        json!({
            "containers": containers, "selector": {"matchLabels": labels}, "grace": grace, "count": count, "host": host, "class": class,
            "strategy": {"type": "x", "rolling": labels},
        })
    });
    let created = (-60_000_000_000i64..200_000_000_000).prop_map(|seconds| match jiff::Timestamp::from_second(seconds) {
        Ok(at) if seconds != 0 => crate::time::format_rfc3339_seconds(at).into(),
        _ => Value::Null,
    });
    (texts(), created, spec).prop_map(|(labels, created, spec)| {
        let managed = json!([{"f:metadata": {"f:labels": labels}}]);
        json!({"metadata": {"name": "p", "labels": labels, "created": created, "managedFields": managed}, "spec": spec})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(pod in pods()) {
        let (schema, forms) = forms();
        let pod = normal(&schema, &pod);
        let bytes = forms.encode(schema.name(), &pod).unwrap();
        let read = normal(&schema, &forms.decode(schema.name(), &bytes).unwrap());
        prop_assert_eq!(read, pod);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (schema, forms) = forms();
        if let Ok(unknown) = open(&[b"k8s\0", &bytes[..]].concat()) {
            let _ = forms.decode(schema.name(), unknown.raw);
        }
        if let Ok(value) = forms.decode(schema.name(), &bytes) {
            prop_assert!(value.is_object());
        }
    }

    #[test]
    fn damaged_messages_are_read_or_refused(pod in pods(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (schema, forms) = forms();
        let mut bytes = forms.encode(schema.name(), &normal(&schema, &pod)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = forms.decode(schema.name(), &bytes);
        let _ = forms.decode(schema.name(), &bytes[..at]);
    }
}
