//! JSON into messages, led by the schema.

use base64::Engine as _;
use serde_json::Value;

use super::{
    Error,
    forms::{Forms, Slot, What, is_message},
    leaf,
    wire::{put_bytes, put_double, put_integer, put_message},
};
use crate::schema::{Field, Id, Kind, Presence};

impl Forms {
    /// Writes an object of a definition, decoded by its schema. Errors: `NoForm`, and values that the schema would not have let in.
    pub fn encode(&self, definition: &str, value: &Value) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(1024);
        let id = self.arena.find(definition).ok_or_else(|| Error::NoForm(definition.to_owned()))?;
        self.put_object(id, Some(value), &mut out)?;
        Ok(out)
    }

    fn put_object(&self, id: Id, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let node = self.arena.node(id);
        let (Kind::Object(fields), Some(slots)) = (&node.kind, self.message(id)) else {
            return Err(Error::NoForm(node.name.clone()));
        };
        self.put_slots(fields, slots, value, out)
    }

    fn put_slots(&self, fields: &[Field], slots: &[Slot], value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        for slot in slots {
            match &slot.what {
                What::Inline(inner) => put_message(out, slot.number, |out| self.put_slots(fields, inner, value, out))?,
                What::Field(at) => {
                    let field = &fields[*at];
                    let own = value.and_then(|value| value.get(&field.name)).filter(|own| !own.is_null());
                    self.put_field(field, slot.number, own, out)?;
                }
            }
        }
        Ok(())
    }

    /// Lists and maps are there as often as they have items; of the rest, what is no pointer is always there.
    fn put_field(&self, field: &Field, number: u32, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let (node, name) = (self.arena.node(field.node), field.name.as_str());
        let pointer = matches!(field.presence, Presence::Pointer | Presence::NullIfAbsent);
        match (&node.kind, value) {
            (Kind::Array(inner), _) if !is_message(node) => {
                items(value, name)?.iter().try_for_each(|item| self.put_value(*inner, name, number, present(item), out))
            }
            (Kind::Map(inner), _) => self.put_map(*inner, name, number, value, out),
            // Absent bytes are none, not empty ones.
            (Kind::Bytes, None) => Ok(()),
            (_, None) if pointer => Ok(()),
            _ => self.put_value(field.node, name, number, value, out),
        }
    }

    /// Go writes maps sorted by key.
    fn put_map(&self, inner: Id, name: &str, number: u32, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        let map = value.as_object().ok_or_else(|| wrong(name, "a map"))?;
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| key.as_str());
        entries.into_iter().try_for_each(|(key, value)| {
            put_message(out, number, |out| {
                put_bytes(out, 1, key.as_bytes());
                self.put_value(inner, name, 2, present(value), out)
            })
        })
    }

    fn put_value(&self, id: Id, name: &str, number: u32, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let node = self.arena.node(id);
        match &node.kind {
            Kind::String => put_bytes(out, number, text(value, name)?.as_bytes()),
            Kind::Int32 | Kind::Int64 => put_integer(out, number, integer(value, name)?),
            Kind::Boolean => put_integer(out, number, flag(value, name)?.into()),
            Kind::Number => put_double(out, number, double(value, name)?),
            Kind::Bytes => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text(value, name)?);
                put_bytes(out, number, &bytes.map_err(|_| wrong(name, "base64"))?);
            }
            _ => return put_message(out, number, |out| self.put_inner(id, name, value, out)),
        }
        Ok(())
    }

    /// What lies in a message of its own.
    fn put_inner(&self, id: Id, name: &str, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let node = self.arena.node(id);
        match &node.kind {
            Kind::Quantity => leaf::put_quantity(out, value),
            Kind::IntOrString => leaf::put_int_or_string(out, value),
            Kind::Time => return leaf::put_instant(out, value, false, name),
            Kind::MicroTime => return leaf::put_instant(out, value, true, name),
            Kind::Any | Kind::AnyObject => return leaf::put_raw_json(out, value),
            Kind::ObjectOr(inner) => return self.put_object_or(*inner, &node.name, value, out),
            Kind::Array(inner) => {
                return items(value, name)?.iter().try_for_each(|item| self.put_value(*inner, name, 1, present(item), out));
            }
            _ => return self.put_object(id, value, out),
        }
        Ok(())
    }

    /// `JSONSchemaPropsOrBool` and its like: a schema, or something plainer.
    fn put_object_or(&self, inner: Id, name: &str, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        let or_bool = name.ends_with("OrBool");
        let schema = value.filter(|value| value.is_object());
        if or_bool {
            put_integer(out, 1, (schema.is_some() || value == Some(&Value::Bool(true))).into());
        }
        if schema.is_some() {
            return self.put_value(inner, name, if or_bool { 2 } else { 1 }, schema, out);
        }
        let list = value.and_then(Value::as_array).into_iter().flatten();
        if name.ends_with("OrArray") {
            return list.into_iter().try_for_each(|item| self.put_value(inner, name, 2, present(item), out));
        }
        list.filter_map(Value::as_str).for_each(|text| put_bytes(out, 2, text.as_bytes()));
        Ok(())
    }
}

fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn wrong(field: &str, wanted: &'static str) -> Error {
    Error::Value { field: field.to_owned(), wanted }
}

fn items<'a>(value: Option<&'a Value>, name: &str) -> Result<&'a [Value], Error> {
    value.map_or(Ok(&[]), |value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(name, "a list")))
}

fn text<'a>(value: Option<&'a Value>, name: &str) -> Result<&'a str, Error> {
    value.map_or(Ok(""), |value| value.as_str().ok_or_else(|| wrong(name, "a text")))
}

fn integer(value: Option<&Value>, name: &str) -> Result<i64, Error> {
    value.map_or(Ok(0), |value| value.as_i64().ok_or_else(|| wrong(name, "a whole number")))
}

fn flag(value: Option<&Value>, name: &str) -> Result<bool, Error> {
    value.map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(name, "true or false")))
}

fn double(value: Option<&Value>, name: &str) -> Result<f64, Error> {
    value.map_or(Ok(0.0), |value| value.as_f64().ok_or_else(|| wrong(name, "a number")))
}
