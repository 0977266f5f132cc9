//! Messages into JSON, led by the schema.

use apimachinery::{
    schema::{Arena, Id, Kind, Schema},
    time,
};
use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::{
    Error,
    table::{self, Target},
    wire::{self, Wire},
};

/// Messages may lie this deep in each other.
const MAX_DEPTH: usize = 64;

/// Reads a message of the schema's kind. What Go writes for absent fields (empty texts, zeros) is still there: decode the
/// outcome by the schema.
pub(crate) fn decode(schema: &Schema, raw: &[u8]) -> Result<Value, Error> {
    let name = schema.name();
    table::find(name).ok_or_else(|| Error::NoForm(name.to_owned()))?;
    let mut out = Map::new();
    Reader { arena: schema.arena(), depth: 0 }.message(schema.id(), name, raw, &mut out)?;
    Ok(Value::Object(out))
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    arena: &'a Arena,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn message(self, id: Id, name: &str, raw: &[u8], out: &mut Map<String, Value>) -> Result<(), Error> {
        if self.depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        let deeper = Self { depth: self.depth + 1, ..self };
        let Some(numbers) = table::find(name) else { return Err(Error::NoForm(name.to_owned())) };
        let Kind::Object(fields) = &self.arena.node(id).kind else { return Ok(()) };
        for (number, wire) in wire::fields(raw)? {
            match numbers.get(&number) {
                // A newer client's field: unknown fields are dropped, as in JSON.
                None => {}
                Some(Target::Inline(inner)) => deeper.message(id, inner, wire.bytes(inner)?, out)?,
                Some(Target::Field(field)) => {
                    let Ok(at) = fields.binary_search_by(|f| f.name.as_str().cmp(field)) else { continue };
                    deeper.field(fields[at].node, field, wire, out)?;
                }
            }
        }
        Ok(())
    }

    /// One occurrence of a field: repeated ones add to what is there.
    fn field(self, id: Id, name: &str, wire: Wire<'_>, out: &mut Map<String, Value>) -> Result<(), Error> {
        match &self.arena.node(id).kind {
            Kind::Array(inner) => {
                let items = self.items(*inner, name, wire)?;
                if let Value::Array(list) = out.entry(name).or_insert_with(|| json!([])) {
                    list.extend(items);
                }
            }
            Kind::Map(inner) => {
                let (key, value) = self.entry(*inner, name, wire.bytes(name)?)?;
                if let Value::Object(map) = out.entry(name).or_insert_with(|| json!({})) {
                    map.insert(key, value);
                }
            }
            _ => {
                let value = self.value(id, name, wire)?;
                out.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// One item, or several numbers packed together.
    fn items(self, inner: Id, name: &str, wire: Wire<'_>) -> Result<Vec<Value>, Error> {
        let number = matches!(self.arena.node(inner).kind, Kind::Int32 | Kind::Int64 | Kind::Boolean);
        match wire {
            Wire::Bytes(mut packed) if number => {
                let mut out = Vec::new();
                while !packed.is_empty() {
                    out.push(self.value(inner, name, Wire::Varint(wire::varint(&mut packed)?))?);
                }
                Ok(out)
            }
            wire => Ok(vec![self.value(inner, name, wire)?]),
        }
    }

    fn entry(self, inner: Id, name: &str, raw: &[u8]) -> Result<(String, Value), Error> {
        let (mut key, mut value) = (String::new(), None);
        for (number, wire) in wire::fields(raw)? {
            match number {
                1 => key = wire.text(name)?.to_owned(),
                2 => value = Some(self.value(inner, name, wire)?),
                _ => {}
            }
        }
        let empty = || match self.arena.node(inner).kind {
            Kind::String | Kind::Bytes => Value::from(""),
            _ => Value::Null,
        };
        Ok((key, value.unwrap_or_else(empty)))
    }

    fn value(self, id: Id, name: &str, wire: Wire<'_>) -> Result<Value, Error> {
        let node = self.arena.node(id);
        Ok(match &node.kind {
            Kind::String => wire.text(name)?.into(),
            Kind::Int32 | Kind::Int64 => wire.integer(name)?.into(),
            Kind::Boolean => (wire.integer(name)? != 0).into(),
            Kind::Number => wire.double(name)?.into(),
            Kind::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes(name)?).into(),
            Kind::Quantity => text_at(wire.bytes(name)?, 1)?.into(),
            Kind::IntOrString => int_or_string(wire.bytes(name)?)?,
            Kind::Time | Kind::MicroTime => instant(wire.bytes(name)?, node.kind == Kind::MicroTime)?,
            Kind::Any | Kind::AnyObject => self.raw_json(wire.bytes(name)?)?,
            Kind::ObjectOr(inner) => self.object_or(*inner, &node.name, wire.bytes(name)?)?,
            Kind::Object(_) => {
                let mut out = Map::new();
                self.message(id, &node.name, wire.bytes(name)?, &mut out)?;
                Value::Object(out)
            }
            // A list or map that is a message of its own (`ExtraValue`, `Verbs`): its items are field 1.
            Kind::Array(_) | Kind::Map(_) => {
                let mut out = Map::new();
                for (_, item) in wire::fields(wire.bytes(name)?)?.into_iter().filter(|(number, _)| *number == 1) {
                    self.field(id, name, item, &mut out)?;
                }
                out.remove(name).unwrap_or_else(|| json!([]))
            }
        })
    }

    /// `RawExtension`, `FieldsV1`, `JSON`: JSON bytes in field 1.
    fn raw_json(self, raw: &[u8]) -> Result<Value, Error> {
        match wire::fields(raw)?.into_iter().find(|(number, _)| *number == 1) {
            Some((_, bytes)) if !bytes.bytes("raw")?.is_empty() => Ok(serde_json::from_slice(bytes.bytes("raw")?)?),
            _ => Ok(Value::Null),
        }
    }

    /// `JSONSchemaPropsOrBool` and its like: a schema, or something plainer.
    fn object_or(self, inner: Id, name: &str, raw: &[u8]) -> Result<Value, Error> {
        let schema_number = if name.ends_with("OrBool") { 2 } else { 1 };
        let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
        for (number, wire) in wire::fields(raw)? {
            match number {
                n if n == schema_number => schema = Some(self.value(inner, name, wire)?),
                1 => allows = wire.integer(name)? != 0,
                2 if name.ends_with("OrArray") => list.push(self.value(inner, name, wire)?),
                2 => list.push(wire.text(name)?.into()),
                _ => {}
            }
        }
        let plain = if name.ends_with("OrBool") { allows.into() } else { Value::Array(list) };
        Ok(schema.unwrap_or(plain))
    }
}

fn text_at(raw: &[u8], wanted: u64) -> Result<String, Error> {
    let found = wire::fields(raw)?.into_iter().find(|(number, _)| *number == wanted);
    Ok(found.map(|(_, wire)| wire.text("string")).transpose()?.unwrap_or_default().to_owned())
}

fn int_or_string(raw: &[u8]) -> Result<Value, Error> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for (field, wire) in wire::fields(raw)? {
        match field {
            1 => is_text = wire.integer("type")? == 1,
            2 => number = wire.integer("intVal")?,
            3 => text = wire.text("strVal")?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn instant(raw: &[u8], micro: bool) -> Result<Value, Error> {
    let (mut seconds, mut nanos) = (0, 0);
    for (field, wire) in wire::fields(raw)? {
        match field {
            1 => seconds = wire.integer("seconds")?,
            2 => nanos = wire.integer("nanos")?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let at = jiff::Timestamp::new(seconds, i32::try_from(nanos).unwrap_or_default()).unwrap_or_default();
    Ok(if micro { time::format_rfc3339_micro(at) } else { time::format_rfc3339_seconds(at) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{protobuf::open, schema};

    fn bytes_field(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(payload.len()).unwrap()];
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn a_config_map_is_read_with_its_type() {
        let meta = [bytes_field(1, b"x"), bytes_field(3, b"a")].concat();
        let entry = [bytes_field(1, b"k"), bytes_field(2, b"v")].concat();
        let raw = [bytes_field(1, &meta), bytes_field(2, &entry)].concat();
        let type_meta = [bytes_field(1, b"v1"), bytes_field(2, b"ConfigMap")].concat();
        let body = [b"k8s\0".to_vec(), bytes_field(1, &type_meta), bytes_field(2, &raw)].concat();
        let unknown = open(&body).unwrap();
        assert_eq!((unknown.api_version, unknown.kind), ("v1", "ConfigMap"));
        let value = decode(&schema::builtin("io.k8s.api.core.v1.ConfigMap"), unknown.raw).unwrap();
        assert_eq!(value, json!({"metadata": {"name": "x", "namespace": "a"}, "data": {"k": "v"}}));
    }

    #[test]
    fn embedded_structs_numbers_and_choices_find_their_place() {
        let empty_dir = bytes_field(2, &bytes_field(1, b"Memory"));
        let volume = [bytes_field(1, b"v"), bytes_field(2, &empty_dir)].concat();
        let target = bytes_field(4, &[0x08, 0, 0x10, 80]);
        let value = decode(&schema::builtin("io.k8s.api.core.v1.PodSpec"), &bytes_field(1, &volume)).unwrap();
        assert_eq!(value, json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}));
        let port = [vec![0x18, 80], target].concat();
        let value = decode(&schema::builtin("io.k8s.api.core.v1.ServicePort"), &port).unwrap();
        assert_eq!(value, json!({"port": 80, "targetPort": 80}));
    }

    #[test]
    fn a_truncated_message_is_refused() {
        let schema = schema::builtin("io.k8s.api.core.v1.ConfigMap");
        assert!(matches!(decode(&schema, &[0x0a, 0x7f, 1]), Err(Error::Truncated)));
        assert!(matches!(open(b"{}"), Err(Error::Prefix)));
    }
}
