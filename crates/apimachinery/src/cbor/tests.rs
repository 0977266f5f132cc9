use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    raw::Node,
    schema::{Arena, Field, Kind, Node as Type, Schema},
};

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn read(hex: &str) -> Result<Value, String> {
    decode(&bytes(hex)).map(|node| node.to_value()).map_err(|error| error.to_string())
}

fn written(value: Value) -> Vec<u8> {
    encode(&value, None)
}

#[test]
fn texts_are_byte_strings_and_shorter_keys_come_first() {
    let object = json!({"kind": "A", "apiVersion": "v1", "b": [true, null, -1, 300]});
    // {'b': [true, null, -1, 300], 'kind': 'A', 'apiVersion': 'v1'}
    let expected = "d9d9f7 a3 4162 84 f5 f6 20 19012c 446b696e64 4141 4a61706956657273696f6e 427631";
    assert_eq!(written(object), bytes(expected));
}

#[test]
fn numbers_take_as_few_bytes_as_they_need() {
    let cases = [
        (json!(23), "17"),
        (json!(24), "1818"),
        (json!(65536), "1a00010000"),
        (json!(i64::MAX), "1b7fffffffffffffff"),
        (json!(i64::MIN), "3b7fffffffffffffff"),
        (json!(1.5), "f93e00"),
        (json!(100000.5), "fa47c35040"),
        (json!(0.1), "fb3fb999999999999a"),
    ];
    for (value, expected) in cases {
        assert_eq!(written(value.clone())[3..], bytes(expected), "{value}");
        assert_eq!(read(expected).unwrap(), value);
    }
}

#[test]
fn an_event_holds_its_object_as_it_was_encoded() {
    let event = event("ADDED", &written(json!({})));
    assert_eq!(event, bytes("d9d9f7 a2 4474797065 454144444544 466f626a656374 d9d9f7a0"));
    assert_eq!(decode(&event).unwrap().to_value(), json!({"type": "ADDED", "object": {}}));
}

fn secret() -> Schema {
    let mut arena = Arena::default();
    let (data, number) = (arena.add(Type::new(Kind::Bytes)), arena.add(Type::new(Kind::Number)));
    let map = arena.add(Type::new(Kind::Map(data)));
    let list = arena.add(Type::new(Kind::Array(number)));
    let id = arena.define("Secret", Type::new(Kind::Object(vec![Field::new("data", map), Field::new("weights", list)])));
    Schema::at(&std::sync::Arc::new(arena), id)
}

#[test]
fn bytes_and_floats_are_what_go_holds_not_what_json_shows() {
    let value = json!({"data": {"k": "AAH/"}, "weights": [2], "other": "AAH/"});
    let sent = encode(&value, Some(&secret()));
    assert_eq!(sent, bytes("d9d9f7 a3 4464617461 a1 416b d6 430001ff 456f74686572 44414148 2f 4777656967687473 81 f94000"));
    assert_eq!(decode(&sent).unwrap().to_value(), value);
}

#[test]
fn other_encoders_may_use_pieces_tags_and_either_string() {
    assert_eq!(read("bf 6161 9f 01 ff 4162 5f 4178 4179 ff ff").unwrap(), json!({"a": [1], "b": "xy"}));
    assert_eq!(read("c0 74 323032362d30312d30325430333a30343a30355a").unwrap(), json!("2026-01-02T03:04:05Z"));
    assert_eq!(read("c1 1a65937d00").unwrap(), json!("2024-01-02T03:03:28Z"));
    assert_eq!((read("d5 42fbff").unwrap(), read("d7 42fbff").unwrap()), (json!("-_8="), json!("fbff")));
    assert_eq!(read("d9d9f7 d903e8 01").unwrap(), json!(1));
}

#[test]
fn what_has_no_place_in_an_object_is_refused() {
    let cases = [
        ("", "EOF"),
        ("a1", "unexpected EOF"),
        ("5bffffffffffffffff", "unexpected EOF"),
        ("0102", "cbor: 1 bytes of extraneous data starting at index 1"),
        ("a2 4161 01 6161 02", "cbor: found duplicate map key \"a\" at map element index 1"),
        ("a1 01 02", "cbor: cannot unmarshal positive integer into Go value of type string"),
        ("61ff", "cbor: invalid UTF-8 string"),
        ("1b8000000000000000", "cbor: cannot unmarshal positive integer into Go value of type int64 (overflows Go's int64)"),
        ("3b8000000000000000", "cbor: cannot unmarshal negative integer into Go value of type int64 (overflows Go's int64)"),
        ("f97e00", "cbor: floating-point NaN is not accepted"),
        ("f97c00", "cbor: floating-point infinity is not accepted"),
        ("f7", "cbor: simple value 23 is not recognized"),
        ("1c", "cbor: invalid additional information 28 for type positive integer"),
        ("ff", "cbor: unexpected \"break\" code"),
        ("5f 6161 ff", "cbor: wrong element type UTF-8 text string for indefinite-length byte string"),
        ("c2 4101", "cbor: bignum tags are not accepted"),
        ("d6 6161", "cbor: tag number 22 must be followed by byte string, got UTF-8 text string"),
        ("c0 6161", "cbor: cannot set \"a\" for time.Time: not an RFC 3339 time"),
        ("990401", "cbor: exceeded max number of elements 1024 for CBOR array"),
        ("b90401", "cbor: exceeded max number of key-value pairs 1024 for CBOR map"),
    ];
    for (hex, message) in cases {
        assert_eq!(read(hex).unwrap_err(), message, "{hex}");
    }
}

#[test]
fn nesting_and_lengths_that_are_not_told_are_bounded_too() {
    let deep = |levels: usize| decode(&[&vec![0x81; levels][..], &[0]].concat()).map(drop);
    assert_eq!((deep(64), deep(65), deep(100_000)), (Ok(()), Err(Error::Depth(64)), Err(Error::Depth(64))));
    assert_eq!(decode(&vec![0xc6; 100_000]).unwrap_err(), Error::Depth(64));
    let long = |items: usize| decode(&[&[0x9f][..], &vec![0; items], &[0xff]].concat()).map(drop);
    assert_eq!((long(1024), long(1025)), (Ok(()), Err(Error::Elements(1024))));
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_filter("JSON shows whole numbers as such", |float| float.fract() != 0.0).prop_map(Into::into),
        ".*".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(".*", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in values()) {
        prop_assert_eq!(decode(&written(value.clone())).map(|node| node.to_value()), Ok(value));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
    }

    #[test]
    fn damaged_items_are_read_or_refused(value in values(), at: prop::sample::Index, byte: u8) {
        let mut sent = written(value);
        let at = at.index(sent.len());
        sent[at] = byte;
        let read = decode(&sent).map(|node: Node<'_>| node.to_value());
        if let Ok(read) = read {
            prop_assert_eq!(decode(&written(read.clone())).map(|node| node.to_value()), Ok(read));
        }
    }
}
