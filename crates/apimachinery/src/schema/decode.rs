//! Decoding of documents into objects, with Go's type errors and strict errors.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Arena, Field, Id, Kind, Presence, Schema, fill, leaf};
use crate::raw::{self, Node};

/// At most this many strict errors are reported.
const MAX_STRICT: usize = 100;

/// An object that was read, and what a strict reader objects to.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object, in canonical form.
    pub value: Value,
    /// `unknown field "spec.x"`, `duplicate field "metadata.name"`, in the order they were found.
    pub strict: Vec<String>,
}

/// A document that does not fit the schema; worded as Go's decoders word it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Whose words type errors use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// `encoding/json`: bodies, JSON patches, merge patches.
    Json,
    /// `runtime.DefaultUnstructuredConverter`: strategic merge patches.
    Converter,
}

impl Schema {
    /// Reads a document. Unknown fields are dropped and, like duplicate ones, reported as strict errors.
    pub fn decode(&self, node: &Node<'_>) -> Result<Decoded, DecodeError> {
        self.decode_with(node, Words::Json)
    }

    /// Reads a value that is no document of a client's but was made here, by a JSON or merge patch.
    pub fn decode_value(&self, value: &Value) -> Result<Decoded, DecodeError> {
        self.decode_with(&Node::from(value), Words::Json)
    }

    /// [`Schema::decode_value`] with the words upstream uses after a strategic merge patch.
    pub fn convert_value(&self, value: &Value) -> Result<Decoded, DecodeError> {
        self.decode_with(&Node::from(value), Words::Converter)
    }

    fn decode_with(&self, node: &Node<'_>, words: Words) -> Result<Decoded, DecodeError> {
        if self.is_custom() {
            return self.decode_custom(node);
        }
        let mut decoder = Decoder { arena: self.arena(), words, strict: Vec::new(), at: Vec::new(), fields: Vec::new(), owner: "" };
        let value = decoder.value(self.id(), node)?;
        let value = value.unwrap_or_else(|| fill::zero(self.arena(), self.id()));
        Ok(Decoded { value, strict: decoder.strict })
    }
}

/// Reads a value as one node of an arena, by the rules of built-in kinds.
pub(super) fn decode_part(arena: &Arena, id: Id, value: &Value) -> Result<Decoded, DecodeError> {
    let node = Node::from(value);
    let mut decoder = Decoder { arena, words: Words::Json, strict: Vec::new(), at: Vec::new(), fields: Vec::new(), owner: "" };
    let value = decoder.value(id, &node)?.unwrap_or_else(|| fill::zero(arena, id));
    Ok(Decoded { value, strict: decoder.strict })
}

enum Step<'a> {
    Member(Cow<'a, str>),
    Item(usize),
}

struct Decoder<'a> {
    arena: &'a Arena,
    words: Words,
    strict: Vec<String>,
    /// Where in the document, for strict errors.
    at: Vec<Step<'a>>,
    /// Names of the struct fields around, for type errors.
    fields: Vec<&'a str>,
    /// Definition of the struct around.
    owner: &'a str,
}

impl<'a> Decoder<'a> {
    /// The canonical value; `None` for null.
    fn value(&mut self, id: Id, node: &'a Node<'a>) -> Result<Option<Value>, DecodeError> {
        let arena = self.arena;
        let kind = &arena.node(id).kind;
        let value = match (kind, node) {
            (_, Node::Null) => return Ok(None),
            (Kind::Any, _) => self.any(node),
            (Kind::AnyObject, _) => node.to_value(),
            (Kind::ObjectOr(inner), Node::Object(_)) => return self.value(*inner, node),
            (Kind::ObjectOr(_), _) => self.any(node),
            (Kind::Object(fields), Node::Object(members)) => Value::Object(self.object(id, fields, members)?),
            (Kind::Map(inner), Node::Object(members)) => Value::Object(self.map(*inner, members)?),
            (Kind::Array(inner), Node::Array(items)) => Value::Array(self.array(*inner, items)?),
            (Kind::String, Node::String(text)) => Value::String(text.clone().into_owned()),
            (Kind::Boolean, Node::Bool(value)) => Value::Bool(*value),
            (Kind::Int32 | Kind::Int64, Node::Number(text)) => self.integer(id, text, *kind == Kind::Int64)?,
            (Kind::Number, Node::Number(text)) => raw::number(text),
            (Kind::Bytes, Node::String(text)) => leaf::bytes(text).map_err(DecodeError)?,
            (Kind::Quantity, _) => leaf::quantity(node).map_err(DecodeError)?,
            (Kind::IntOrString, _) => leaf::int_or_string(node).map_err(DecodeError)?,
            (Kind::Time | Kind::MicroTime, _) => leaf::instant(node, *kind == Kind::MicroTime).map_err(DecodeError)?,
            _ => return Err(self.mismatch(id, node, node.type_name())),
        };
        Ok(Some(value))
    }

    fn integer(&self, id: Id, text: &str, wide: bool) -> Result<Value, DecodeError> {
        let node = Node::Number(Cow::Borrowed(text));
        let whole = |text: &str| leaf::integer(text, wide);
        // The converter has already turned `2.0` into a number that is whole.
        let converted = || text.strip_suffix(".0").filter(|_| self.words == Words::Converter).and_then(whole);
        whole(text).or_else(converted).ok_or_else(|| self.mismatch(id, &node, &format!("number {text}")))
    }

    fn any(&mut self, node: &Node<'_>) -> Value {
        if matches!(node, Node::Array(_) | Node::Object(_)) {
            let here = self.path();
            for path in raw::duplicates(node) {
                let path = if path.starts_with('[') { format!("{here}{path}") } else { raw::join(&here, &path) };
                self.complain("duplicate", &path);
            }
        }
        node.to_value()
    }

    fn object(&mut self, id: Id, fields: &'a [Field], members: &'a [(Cow<'a, str>, Node<'a>)]) -> Result<Map<String, Value>, DecodeError> {
        let node = self.arena.node(id);
        let owner = std::mem::replace(&mut self.owner, &node.name);
        let mut out = Map::new();
        let mut seen = vec![false; fields.len()];
        for (key, value) in members {
            self.at.push(Step::Member(Cow::Borrowed(key)));
            match fields.binary_search_by(|field| field.name.as_str().cmp(key)) {
                Ok(index) => {
                    if std::mem::replace(&mut seen[index], true) {
                        self.complain("duplicate", &self.path());
                    }
                    self.field(&fields[index], value, &mut out)?;
                }
                Err(_) if node.preserve_unknown => {
                    let value = self.any(value);
                    out.insert(key.clone().into_owned(), value);
                }
                Err(_) => self.complain("unknown", &self.path()),
            }
            self.at.pop();
        }
        self.owner = owner;
        fill::absent(self.arena, fields, &mut out);
        Ok(out)
    }

    fn field(&mut self, field: &'a Field, value: &'a Node<'a>, out: &mut Map<String, Value>) -> Result<(), DecodeError> {
        self.fields.push(&field.name);
        let decoded = self.value(field.node, value)?;
        self.fields.pop();
        match (decoded, field.presence) {
            (Some(value), Presence::OmitEmpty) if fill::is_empty(&value) => _ = out.remove(&field.name),
            (Some(value), _) => _ = out.insert(field.name.clone(), value),
            (None, Presence::Kept) => _ = out.insert(field.name.clone(), Value::Null),
            (None, Presence::Pointer) => _ = out.remove(&field.name),
            (None, _) => {}
        }
        Ok(())
    }

    fn map(&mut self, inner: Id, members: &'a [(Cow<'a, str>, Node<'a>)]) -> Result<Map<String, Value>, DecodeError> {
        let mut out = Map::new();
        for (key, value) in members {
            self.at.push(Step::Member(Cow::Borrowed(key)));
            if out.contains_key(&**key) {
                self.complain("duplicate", &self.path());
            }
            let value = self.value(inner, value)?.unwrap_or_else(|| fill::zero(self.arena, inner));
            out.insert(key.clone().into_owned(), value);
            self.at.pop();
        }
        Ok(out)
    }

    fn array(&mut self, inner: Id, items: &'a [Node<'a>]) -> Result<Vec<Value>, DecodeError> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.at.push(Step::Item(index));
            out.push(self.value(inner, item)?.unwrap_or_else(|| fill::zero(self.arena, inner)));
            self.at.pop();
        }
        Ok(out)
    }

    fn path(&self) -> String {
        self.at.iter().fold(String::new(), |path, step| match step {
            Step::Member(name) => raw::join(&path, name),
            Step::Item(index) => format!("{path}[{index}]"),
        })
    }

    fn complain(&mut self, what: &str, path: &str) {
        let message = format!("{what} field \"{path}\"");
        if self.strict.len() < MAX_STRICT && !self.strict.contains(&message) {
            self.strict.push(message);
        }
    }

    fn mismatch(&self, id: Id, node: &Node<'_>, what: &str) -> DecodeError {
        DecodeError(match self.words {
            Words::Json => {
                let target = self.arena.go_type(id);
                let owner = self.owner.rsplit('.').next().unwrap_or_default();
                if self.fields.is_empty() {
                    format!("json: cannot unmarshal {what} into Go value of type {target}")
                } else {
                    format!("json: cannot unmarshal {what} into Go struct field {owner}.{} of type {target}", self.fields.join("."))
                }
            }
            Words::Converter => self.converter_words(id, node),
        })
    }

    fn converter_words(&self, id: Id, node: &Node<'_>) -> String {
        let found = match node {
            Node::Null => "invalid",
            Node::Bool(_) => "bool",
            Node::Number(text) if text.parse::<i64>().is_ok() => "int64",
            Node::Number(_) => "float64",
            Node::String(_) => "string",
            Node::Array(_) => "slice",
            Node::Object(_) => "map",
        };
        match &self.arena.node(id).kind {
            Kind::Object(_) => format!("cannot restore struct from: {found}"),
            Kind::Array(_) | Kind::Bytes => format!("cannot restore slice from {found}"),
            Kind::Map(_) => format!("cannot restore map from {found}"),
            Kind::String => "unrecognized type: string".into(),
            Kind::Boolean => "unrecognized type: bool".into(),
            Kind::Int32 => "unrecognized type: int32".into(),
            Kind::Int64 => "unrecognized type: int64".into(),
            _ => "unrecognized type: float64".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn decode(text: &str) -> Result<Decoded, DecodeError> {
        sample::pod().decode(&raw::parse_json(text.as_bytes()).unwrap())
    }

    fn error(text: &str) -> String {
        decode(text).unwrap_err().0
    }

    #[test]
    fn type_errors_name_struct_path_and_go_type() {
        let cases = [
            (r#"{"spec":[]}"#, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
            (
                r#"{"spec":{"containers":{}}}"#,
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (r#"{"spec":{"grace":"x"}}"#, "json: cannot unmarshal string into Go struct field PodSpec.spec.grace of type int64"),
            (r#"{"spec":{"grace":1.5}}"#, "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.grace of type int64"),
            (
                r#"{"spec":{"containers":[{"pull":1}]}}"#,
                "json: cannot unmarshal number into Go struct field Container.spec.containers.pull of type v1.PullPolicy",
            ),
            (
                r#"{"metadata":{"labels":{"a":1}}}"#,
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                r#"{"spec":{"containers":[{"limits":{"cpu":"1x"}}]}}"#,
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(error(text), message);
        }
    }

    #[test]
    fn strict_errors_come_in_document_order() {
        let decoded =
            decode(r#"{"zz":1,"metadata":{"name":"a","name":"b","labels":{"k":"v","k":"w"}},"spec":{"containers":[{"x":1}]},"Spec":1}"#);
        let decoded = decoded.unwrap();
        assert_eq!(
            decoded.strict,
            [
                "unknown field \"zz\"",
                "duplicate field \"metadata.name\"",
                "duplicate field \"metadata.labels.k\"",
                "unknown field \"spec.containers[0].x\"",
                "unknown field \"Spec\"",
            ]
        );
        assert_eq!(decoded.value["metadata"], json!({"name": "b", "labels": {"k": "w"}}));
    }

    #[test]
    fn empty_values_vanish_unless_the_go_field_is_a_pointer_or_always_written() {
        let decoded = decode(
            r#"{"metadata":{"name":"","labels":{},"created":null},
                "spec":{"grace":0,"count":0,"containers":[],"host":false,"class":"","volumes":[]}}"#,
        );
        let spec = json!({"grace": 0, "containers": [], "class": ""});
        assert_eq!(decoded.unwrap().value, json!({"metadata": {}, "spec": spec}));
    }

    #[test]
    fn always_written_fields_appear() {
        let decoded = decode(r#"{"spec":{"containers":[{}, null]}}"#).unwrap();
        assert_eq!(decoded.value["spec"]["containers"], json!([{"name": "", "resources": {}}, {"name": "", "resources": {}}]));
        assert_eq!(decoded.value["metadata"], json!({}));
    }

    #[test]
    fn leaves_are_rewritten_in_canonical_form() {
        let decoded = decode(
            r#"{"metadata":{"created":"2024-01-02T05:04:05+02:00"},"spec":{"containers":[{"limits":{"cpu":"1000m","m":1},"port":"x"}]}}"#,
        );
        let value = decoded.unwrap().value;
        assert_eq!(value["metadata"]["created"], "2024-01-02T03:04:05Z");
        assert_eq!(value["spec"]["containers"][0]["limits"], json!({"cpu": "1", "m": "1"}));
    }

    #[test]
    fn conversion_errors_have_their_own_words() {
        let error = |value| sample::pod().convert_value(&value).unwrap_err().0;
        assert_eq!(error(json!({"spec": "x"})), "cannot restore struct from: string");
        assert_eq!(error(json!({"spec": {"containers": {"name": "c"}}})), "cannot restore slice from map");
        assert_eq!(error(json!({"spec": {"count": "three"}})), "unrecognized type: int32");
    }

    fn values() -> impl Strategy<Value = Value> {
        let key = prop::sample::select(vec![
            "metadata",
            "spec",
            "containers",
            "name",
            "labels",
            "limits",
            "ports",
            "port",
            "grace",
            "strategy",
            "x",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..2).prop_map(Value::from),
            prop::sample::select(vec!["", "a", "1", "100m", "2024-01-02T03:04:05Z"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 48, 5, move |inner| {
            let members = prop::collection::btree_map(key.clone(), inner.clone(), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::Array),
                members.prop_map(|members| Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn decoding_brings_into_a_form_that_decodes_to_itself(value in values()) {
            if let Ok(first) = sample::pod().decode_value(&value) {
                let again = sample::pod().decode_value(&first.value).unwrap();
                prop_assert_eq!(again.value, first.value);
                prop_assert!(again.strict.is_empty());
            }
        }
    }
}
