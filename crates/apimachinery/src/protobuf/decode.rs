//! Messages into JSON, led by the schema.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::{
    Error,
    forms::{Forms, Slot, What, is_message},
    leaf,
    wire::{self, Wire},
};
use crate::{
    raw,
    schema::{Field, Id, Kind, Schema},
};

/// Messages may lie this deep in each other.
const MAX_DEPTH: usize = 64;

impl Forms {
    /// Reads a message of a definition. What Go writes for absent fields (empty texts, zeros) is still there: decode the outcome by the
    /// schema. Unknown numbers are skipped, as upstream does.
    pub fn decode(&self, definition: &str, message: &[u8]) -> Result<Value, Error> {
        let id = self.arena.find(definition).ok_or_else(|| Error::NoForm(definition.to_owned()))?;
        let mut out = Map::new();
        Reader { forms: self, depth: 0 }.message(id, message, &mut out)?;
        let value = Value::Object(out);
        // An object that lies deeper than JSON is read could be stored, but neither it nor a list with it could be read again.
        if fits(&value, raw::MAX_DEPTH) { Ok(value) } else { Err(Error::Depth) }
    }
}

/// Whether lists and objects lie at most so deep in each other.
fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(map) => depth > 0 && map.values().all(|inner| fits(inner, depth - 1)),
        Value::Array(list) => depth > 0 && list.iter().all(|inner| fits(inner, depth - 1)),
        _ => true,
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    forms: &'a Forms,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn kind(self, id: Id) -> &'a Kind {
        &self.forms.arena.node(id).kind
    }

    fn message(self, id: Id, raw: &[u8], out: &mut Map<String, Value>) -> Result<(), Error> {
        let node = self.forms.arena.node(id);
        let (Kind::Object(fields), Some(slots)) = (&node.kind, self.forms.message(id)) else {
            return Err(Error::NoForm(node.name.clone()));
        };
        self.slots(fields, slots, raw, out)
    }

    fn slots(self, fields: &[Field], slots: &[Slot], raw: &[u8], out: &mut Map<String, Value>) -> Result<(), Error> {
        if self.depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        let deeper = Self { depth: self.depth + 1, ..self };
        for item in wire::fields(raw) {
            let (number, wire) = item?;
            let Ok(at) = slots.binary_search_by(|slot| u64::from(slot.number).cmp(&number)) else { continue };
            match &slots[at].what {
                What::Field(field) => deeper.field(fields[*field].node, &fields[*field].name, wire, out)?,
                What::Inline(inner) => deeper.slots(fields, inner, wire.bytes("embedded")?, out)?,
            }
        }
        Ok(())
    }

    /// One occurrence of a field: repeated ones add to what is there.
    fn field(self, id: Id, name: &str, wire: Wire<'_>, out: &mut Map<String, Value>) -> Result<(), Error> {
        match self.kind(id) {
            Kind::Array(inner) if !is_message(self.forms.arena.node(id)) => {
                let list = out.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    self.items(*inner, name, wire, list)?;
                }
            }
            Kind::Map(inner) => {
                let (key, value) = self.entry(*inner, name, wire.bytes(name)?)?;
                if let Value::Object(map) = out.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                    map.insert(key, value);
                }
            }
            Kind::Object(_) => {
                let merged = out.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(inner) = merged {
                    self.message(id, wire.bytes(name)?, inner)?;
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
    fn items(self, inner: Id, name: &str, wire: Wire<'_>, list: &mut Vec<Value>) -> Result<(), Error> {
        let number = matches!(self.kind(inner), Kind::Int32 | Kind::Int64 | Kind::Boolean);
        match wire {
            Wire::Bytes(mut packed) if number => {
                while !packed.is_empty() {
                    list.push(self.value(inner, name, Wire::Varint(wire::varint(&mut packed)?))?);
                }
            }
            wire => list.push(self.value(inner, name, wire)?),
        }
        Ok(())
    }

    /// One entry of a map: its key in field 1, its value in field 2, either absent where empty.
    fn entry(self, inner: Id, name: &str, raw: &[u8]) -> Result<(String, Value), Error> {
        let absent = match self.kind(inner) {
            Kind::Int32 | Kind::Int64 | Kind::Boolean => Wire::Varint(0),
            Kind::Number => Wire::Fixed64(0),
            _ => Wire::Bytes(&[]),
        };
        let (mut key, mut value) = ("", absent);
        for field in wire::fields(raw) {
            match field? {
                (1, wire) => key = wire.text(name)?,
                (2, wire) => value = wire,
                _ => {}
            }
        }
        Ok((key.to_owned(), self.value(inner, name, value)?))
    }

    fn value(self, id: Id, name: &str, wire: Wire<'_>) -> Result<Value, Error> {
        let node = self.forms.arena.node(id);
        Ok(match &node.kind {
            Kind::String => wire.text(name)?.into(),
            Kind::Int32 => wire.integer32(name)?.into(),
            Kind::Int64 => wire.integer(name)?.into(),
            Kind::Boolean => (wire.integer(name)? != 0).into(),
            Kind::Number => wire.double(name)?.into(),
            Kind::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes(name)?).into(),
            Kind::Quantity => leaf::quantity(wire.bytes(name)?)?,
            Kind::IntOrString => leaf::int_or_string(wire.bytes(name)?)?,
            Kind::Time => leaf::instant(wire.bytes(name)?, false, name)?,
            Kind::MicroTime => leaf::instant(wire.bytes(name)?, true, name)?,
            Kind::Any | Kind::AnyObject => leaf::raw_json(wire.bytes(name)?)?,
            Kind::ObjectOr(inner) => self.object_or(*inner, &node.name, wire.bytes(name)?)?,
            Kind::Object(_) => {
                let mut out = Map::new();
                self.message(id, wire.bytes(name)?, &mut out)?;
                Value::Object(out)
            }
            Kind::Array(inner) => {
                let mut list = Vec::new();
                for field in wire::fields(wire.bytes(name)?) {
                    if let (1, item) = field? {
                        self.items(*inner, name, item, &mut list)?;
                    }
                }
                Value::Array(list)
            }
            // No message of Kubernetes holds maps of maps.
            Kind::Map(_) => return Err(Error::NoForm(node.go_name.clone())),
        })
    }

    /// `JSONSchemaPropsOrBool` and its like: a schema, or something plainer.
    fn object_or(self, inner: Id, name: &str, raw: &[u8]) -> Result<Value, Error> {
        let schema_number = if name.ends_with("OrBool") { 2 } else { 1 };
        let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
        for field in wire::fields(raw) {
            match field? {
                (n, wire) if n == schema_number => schema = Some(self.value(inner, name, wire)?),
                (1, wire) => allows = wire.integer(name)? != 0,
                (2, wire) if name.ends_with("OrArray") => list.push(self.normal(inner, self.value(inner, name, wire)?)),
                (2, wire) => list.push(wire.text(name)?.into()),
                _ => {}
            }
        }
        let plain = if name.ends_with("OrBool") { allows.into() } else { Value::Array(list) };
        Ok(schema.unwrap_or(plain))
    }

    /// What the schema will keep as it is must be without what Go writes for absent fields right here.
    fn normal(self, id: Id, value: Value) -> Value {
        match Schema::at(&self.forms.arena, id).decode_value(&value) {
            Ok(decoded) => decoded.value,
            Err(_) => value,
        }
    }
}
