//! Reads JSON without the members nobody looks at: making values of them is most of the work.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An object without the members of these names, at any depth; `None` for what is no object.
pub(super) fn object_without(json: &[u8], names: &[&str]) -> Option<Map<String, Value>> {
    match Without(names).deserialize(&mut serde_json::Deserializer::from_slice(json)) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Without<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Without<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if self.0.contains(&&*name) {
                members.next_value::<IgnoredAny>()?;
            } else {
                out.insert(name.into_owned(), members.next_value_seed(self)?);
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_is_left_out_at_any_depth_and_the_rest_is_as_it_was() {
        let value = json!({"a": [1, -1, 0.5, true, null, {"env": {"x": 1}, "b\"": "ü\n"}], "env": 7});
        let read = |names: &[&str]| object_without(value.to_string().as_bytes(), names).map(Value::Object);
        assert_eq!(read(&[]), Some(value.clone()));
        assert_eq!(read(&["env"]), Some(json!({"a": [1, -1, 0.5, true, null, {"b\"": "ü\n"}]})));
        assert_eq!(object_without(b"[1]", &[]), None);
        assert_eq!(object_without(b"{\"a\":", &[]), None);
    }
}
