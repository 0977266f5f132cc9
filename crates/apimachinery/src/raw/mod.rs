//! Documents as they were written: members in order, duplicates kept.
//!
//! Strict decoding needs to see what a map type throws away. Syntax errors read as Go's `encoding/json` words them.

use std::borrow::Cow;

use serde_json::{Map, Value};

mod json;
mod yaml;

pub(crate) use json::MAX_DEPTH;
pub use json::parse as parse_json;
pub use yaml::{YamlError, parse as parse_yaml};

/// A value of a document. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub enum Node<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as written.
    Number(Cow<'a, str>),
    /// A text.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Node<'a>>),
    /// Members in the order they were written.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// A text that is no JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(pub String);

impl Node<'_> {
    /// The word Go's decoder uses for a value of this type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::String(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }

    /// The last member of that name, if this is an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Node::Object(members) => members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value as JSON; of duplicate members the last one stays.
    pub fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(text) => number(text),
            Node::String(text) => Value::String(text.clone().into_owned()),
            Node::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Node::Object(members) => {
                let mut fields = Map::new();
                for (key, value) in members {
                    fields.insert(key.clone().into_owned(), value.to_value());
                }
                Value::Object(fields)
            }
        }
    }

    /// `apiVersion` and `kind` of the document, empty where absent. The error is upstream's for a document that has none.
    pub fn type_meta(&self) -> Result<(&str, &str), SyntaxError> {
        const TARGET: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let error = |what: &str, target: &str| {
            SyntaxError(format!("couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go {target}"))
        };
        if !matches!(self, Node::Object(_) | Node::Null) {
            return Err(error(self.type_name(), &format!("value of type {TARGET}")));
        }
        let text = |name: &str| match self.get(name) {
            None | Some(Node::Null) => Ok(""),
            Some(Node::String(text)) => Ok(&**text),
            Some(other) => Err(error(other.type_name(), &format!("struct field .{name} of type string"))),
        };
        Ok((text("apiVersion")?, text("kind")?))
    }
}

impl<'a> From<&'a Value> for Node<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(*value),
            Value::Number(number) => Node::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Node::String(Cow::Borrowed(text)),
            Value::Array(items) => Node::Array(items.iter().map(Node::from).collect()),
            Value::Object(fields) => {
                Node::Object(fields.iter().map(|(key, value)| (Cow::Borrowed(key.as_str()), Node::from(value))).collect())
            }
        }
    }
}

/// A number as `encoding/json` reads it into an untyped value of Kubernetes: whole if it fits 64 bits, else a float.
pub(crate) fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    match text.parse::<f64>() {
        // Go writes a whole float without a fraction, so that is what it is when it is read next.
        Ok(float) if float.fract() == 0.0 && float.abs() < 1e15 => (float as i64).into(),
        Ok(float) => serde_json::Number::from_f64(float).map_or(Value::Null, Value::Number),
        Err(_) => Value::Null,
    }
}

/// The members that occur twice, as paths such as `spec.size` or `[0].op`, in document order.
pub fn duplicates(node: &Node<'_>) -> Vec<String> {
    let mut found = Vec::new();
    collect_duplicates(node, "", &mut found);
    found
}

fn collect_duplicates(node: &Node<'_>, path: &str, found: &mut Vec<String>) {
    match node {
        Node::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_duplicates(item, &format!("{path}[{index}]"), found);
            }
        }
        Node::Object(members) => {
            let mut seen = std::collections::BTreeSet::new();
            for (key, value) in members {
                let path = join(path, key);
                if !seen.insert(&**key) && !found.contains(&path) {
                    found.push(path.clone());
                }
                collect_duplicates(value, &path, found);
            }
        }
        _ => {}
    }
}

/// `path.key`, without the dot at the root.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicates_are_found_in_document_order() {
        let node = parse_json(br#"{"b":{"x":1,"x":2},"a":[{"y":1,"y":1}],"b":3}"#).unwrap();
        assert_eq!(duplicates(&node), ["b.x", "a[0].y", "b"]);
        assert_eq!(node.to_value(), json!({"a": [{"y": 1}], "b": 3}));
    }

    #[test]
    fn big_whole_numbers_become_floats() {
        assert_eq!(number("9223372036854775807"), json!(i64::MAX));
        assert_eq!(number("9223372036854775808"), json!(9223372036854775808f64));
        assert_eq!((number("1.0"), number("1.5")), (json!(1), json!(1.5)));
    }

    #[test]
    fn a_document_without_type_meta_says_so() {
        let text = |json: &str| parse_json(json.as_bytes()).unwrap().type_meta().unwrap_err().0;
        assert_eq!(
            text("[1]"),
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type \
             struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
        );
        assert!(text(r#"{"kind":1}"#).ends_with("cannot unmarshal number into Go struct field .kind of type string"));
    }
}
