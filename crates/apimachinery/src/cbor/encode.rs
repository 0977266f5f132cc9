//! Values into data items, led by the schema where there is one.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};

use super::{BASE64, MAGIC, float::to_half};
use crate::schema::{self, Arena, Id, Kind, Schema};

const BYTES: u8 = 2;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;

/// Writes an object. By the schema of a built-in kind it is known what Go holds as bytes or as a floating-point number.
pub fn encode(value: &Value, schema: Option<&Schema>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    put(&mut out, value, schema.map(|schema| Typed { arena: schema.arena(), id: schema.id() }));
    out
}

/// One event of a watch around an object that is encoded already: an item of a sequence (RFC 8742).
pub fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + kind.len() + 24);
    out.extend_from_slice(MAGIC);
    put_head(&mut out, MAP, 2);
    put_bytes(&mut out, b"type");
    put_bytes(&mut out, kind.as_bytes());
    put_bytes(&mut out, b"object");
    out.extend_from_slice(object);
    out
}

/// What is known of a value.
#[derive(Clone, Copy)]
struct Typed<'a> {
    arena: &'a Arena,
    id: Id,
}

impl<'a> Typed<'a> {
    fn kind(self) -> &'a Kind {
        &self.arena.node(self.id).kind
    }

    fn at(self, id: Id) -> Self {
        Self { id, ..self }
    }

    fn item(self) -> Option<Self> {
        if let Kind::Array(inner) = self.kind() { Some(self.at(*inner)) } else { None }
    }

    fn member(self, name: &str) -> Option<Self> {
        match self.kind() {
            Kind::Map(inner) => Some(self.at(*inner)),
            Kind::ObjectOr(inner) => self.at(*inner).member(name),
            _ => schema::field(self.arena.node(self.id), name).map(|field| self.at(field.node)),
        }
    }
}

fn put(out: &mut Vec<u8>, value: &Value, typed: Option<Typed<'_>>) {
    match value {
        Value::Bool(false) => out.push(0xf4),
        Value::Bool(true) => out.push(0xf5),
        Value::Null => out.push(0xf6),
        Value::Number(number) => put_number(out, number, typed),
        Value::String(text) => put_text(out, text, typed),
        Value::Array(items) => {
            put_head(out, ARRAY, items.len() as u64);
            let inner = typed.and_then(Typed::item);
            items.iter().for_each(|item| put(out, item, inner));
        }
        Value::Object(map) => put_map(out, map, typed),
    }
}

/// Keys in the order of their encoding: the shorter first.
fn put_map(out: &mut Vec<u8>, map: &Map<String, Value>, typed: Option<Typed<'_>>) {
    put_head(out, MAP, map.len() as u64);
    let mut members: Vec<_> = map.iter().collect();
    members.sort_unstable_by_key(|(key, _)| (key.len(), key.as_bytes()));
    for (key, value) in members {
        put_bytes(out, key.as_bytes());
        put(out, value, typed.and_then(|typed| typed.member(key)));
    }
}

fn put_text(out: &mut Vec<u8>, text: &str, typed: Option<Typed<'_>>) {
    let bytes = typed.filter(|typed| *typed.kind() == Kind::Bytes).and_then(|_| STANDARD.decode(text).ok());
    match bytes {
        Some(bytes) => {
            put_head(out, TAG, BASE64);
            put_bytes(out, &bytes);
        }
        None => put_bytes(out, text.as_bytes()),
    }
}

fn put_number(out: &mut Vec<u8>, number: &Number, typed: Option<Typed<'_>>) {
    let float = typed.is_some_and(|typed| *typed.kind() == Kind::Number);
    match number.as_i64().filter(|_| !float) {
        Some(whole) if whole >= 0 => put_head(out, 0, whole.unsigned_abs()),
        // -1 is 0, -2 is 1, …
        Some(whole) => put_head(out, 1, (!whole).unsigned_abs()),
        None => put_float(out, number.as_f64().unwrap_or_default()),
    }
}

/// In as few bytes as tell the number exactly.
fn put_float(out: &mut Vec<u8>, value: f64) {
    let single = value as f32;
    if f64::from(single) != value {
        out.push(0xfb);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Some(half) = to_half(single) {
        out.push(0xf9);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend_from_slice(&single.to_be_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Type and number in as few bytes as the number needs.
fn put_head(out: &mut Vec<u8>, major: u8, number: u64) {
    let bytes = number.to_be_bytes();
    let (info, length) = match number {
        0..24 => (bytes[7], 0),
        24..0x100 => (24, 1),
        0x100..0x1_0000 => (25, 2),
        0x1_0000..0x1_0000_0000 => (26, 4),
        _ => (27, 8),
    };
    out.push(major << 5 | info);
    out.extend_from_slice(&bytes[8 - length..]);
}
