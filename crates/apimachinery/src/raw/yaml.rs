//! YAML documents, with members in order and duplicates kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::Node;

/// A text that is no YAML document; worded as upstream's reader words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("yaml: {0}")]
pub struct YamlError(pub String);

/// Reads the first document of a YAML text; an empty text is null.
pub fn parse(text: &str) -> Result<Node<'static>, YamlError> {
    let Some(first) = serde_yaml_ng::Deserializer::from_str(text).next() else {
        return Ok(Node::Null);
    };
    Read.deserialize(first).map_err(|error| YamlError(reworded(&error)))
}

/// libyaml names line and column at the end, go-yaml the line at the front, and only from the second line on.
fn reworded(error: &serde_yaml_ng::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    let problem = message.split(", while ").next().unwrap_or(message);
    let line = error.location().map_or(0, |location| location.line().saturating_sub(1));
    if line == 0 { problem.to_owned() } else { format!("line {line}: {problem}") }
}

struct Read;

impl<'de> DeserializeSeed<'de> for Read {
    type Value = Node<'static>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = Node<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Node::Number(Cow::Owned(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Node::Number(Cow::Owned(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        let number = serde_json::Number::from_f64(value).map(|number| Node::Number(Cow::Owned(number.to_string())));
        Ok(number.unwrap_or_else(|| Node::String(Cow::Owned(value.to_string()))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Node::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Read)? {
            out.push(item);
        }
        Ok(Node::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut out = Vec::new();
        while let Some(key) = members.next_key_seed(Read)? {
            out.push((Cow::Owned(key_text(&key)), members.next_value_seed(Read)?));
        }
        Ok(Node::Object(out))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Self::Value, A::Error> {
        let (_, value) = tagged.variant_seed(Read)?;
        value.newtype_variant_seed(Read)
    }
}

fn key_text(key: &Node<'_>) -> String {
    match key {
        Node::String(text) | Node::Number(text) => text.clone().into_owned(),
        other => other.to_value().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::duplicates;
    use serde_json::json;

    #[test]
    fn reads_maps_lists_and_scalars() {
        let node = parse("a: 1\nb: [x, 1.5, true, null]\n3: {c: \"2\"}\n").unwrap();
        assert_eq!(node.to_value(), json!({"a": 1, "b": ["x", 1.5, true, null], "3": {"c": "2"}}));
    }

    #[test]
    fn keeps_duplicate_keys_for_strict_checks() {
        let node = parse("a: {k: 1, k: 2}\n").unwrap();
        assert_eq!(duplicates(&node), ["a.k"]);
    }

    #[test]
    fn errors_name_the_problem_as_go_yaml_does() {
        assert_eq!(parse("a: b: c").unwrap_err().to_string(), "yaml: mapping values are not allowed in this context");
        assert_eq!(parse("\tx: 1").unwrap_err().to_string(), "yaml: found character that cannot start any token");
        assert_eq!(parse("{").unwrap_err().to_string(), "yaml: line 1: did not find expected node content");
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(parse("a: 1\n---\nb: 2\n").unwrap().to_value(), json!({"a": 1}));
        assert_eq!(parse("").unwrap(), Node::Null);
    }
}
