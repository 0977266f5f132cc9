//! The document of version 2 as protobuf, in the messages of `openapi.v2` (gnostic's `OpenAPIv2.proto`), which is how `client-go` asks
//! for it.
//!
//! Definitions are complete. Of operations there is what clients look up: their kind and their parameters, no answers.

use serde_json::{Map, Value};

/// The media type clients ask with.
pub(crate) const ACCEPTED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the answer.
pub(crate) const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A message being written. Empty texts and false are left out, as protobuf 3 does.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number as u8 & 0x7f) | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(mut self, field: u64, text: &str) -> Self {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
        self
    }

    fn flag(mut self, field: u64, on: bool) -> Self {
        if on {
            self.varint(field << 3);
            self.varint(1);
        }
        self
    }

    fn message(mut self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0);
        self
    }

    fn maybe(self, field: u64, message: Option<Self>) -> Self {
        match message {
            Some(message) => self.message(field, message),
            None => self,
        }
    }

    fn messages(self, field: u64, messages: impl IntoIterator<Item = Self>) -> Self {
        messages.into_iter().fold(self, |out, message| out.message(field, message))
    }

    fn texts(self, field: u64, value: Option<&Value>) -> Self {
        items(value).filter_map(Value::as_str).fold(self, |out, text| out.text(field, text))
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn named(name: &str, value: Message) -> Message {
    Message::default().text(1, name).message(2, value)
}

/// `Any`: a value as YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    Message::default().text(2, &value.to_string())
}

fn extensions(value: &Value) -> impl Iterator<Item = Message> + '_ {
    members(Some(value)).filter(|(name, _)| name.starts_with("x-")).map(|(name, value)| named(name, any(value)))
}

/// Writes a document of version 2.
pub(super) fn write(document: &Value) -> Vec<u8> {
    let info = Message::default().text(1, document["info"]["title"].as_str().unwrap_or_default());
    let info = info.text(2, document["info"]["version"].as_str().unwrap_or_default());
    let paths = members(document.get("paths")).map(|(path, item)| named(path, path_item(item)));
    let definitions = members(document.get("definitions")).map(|(name, definition)| named(name, schema(definition)));
    let out = Message::default().text(1, text(document, "swagger")).message(2, info);
    out.message(8, Message::default().messages(2, paths)).message(9, Message::default().messages(1, definitions)).0
}

fn schema(value: &Value) -> Message {
    let kind = value.get("type").map(|kind| Message::default().texts(1, Some(&Value::Array(vec![kind.clone()]))));
    let additional = value.get("additionalProperties").map(|inner| Message::default().message(1, schema(inner)));
    let list = value.get("items").map(|inner| Message::default().message(1, schema(inner)));
    let properties = value
        .get("properties")
        .and_then(Value::as_object)
        .map(|fields: &Map<String, Value>| Message::default().messages(1, fields.iter().map(|(name, field)| named(name, schema(field)))));
    Message::default()
        .text(1, text(value, "$ref"))
        .text(2, text(value, "format"))
        .text(4, text(value, "description"))
        .texts(19, value.get("required"))
        .messages(20, items(value.get("enum")).map(any))
        .maybe(21, additional)
        .maybe(22, kind)
        .maybe(23, list)
        .maybe(25, properties)
        .messages(31, extensions(value))
}

fn path_item(item: &Value) -> Message {
    let operations = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];
    let out = operations.into_iter().fold(Message::default(), |out, (method, field)| out.maybe(field, item.get(method).map(operation)));
    out.messages(9, items(item.get("parameters")).map(parameter))
}

fn operation(operation: &Value) -> Message {
    Message::default()
        .texts(1, operation.get("tags"))
        .text(3, text(operation, "description"))
        .text(5, text(operation, "operationId"))
        .texts(6, operation.get("produces"))
        .texts(7, operation.get("consumes"))
        .messages(8, items(operation.get("parameters")).map(parameter))
        .message(9, Message::default())
        .texts(10, operation.get("schemes"))
        .messages(13, extensions(operation))
}

/// A parameter: of the body, the query or the path, each in its own wrapping.
fn parameter(parameter: &Value) -> Message {
    let required = parameter.get("required") == Some(&Value::Bool(true));
    let place = text(parameter, "in");
    let wrapped = |field: u64, message: Message| Message::default().message(field, message);
    let inner = if place == "body" {
        let body = Message::default().text(2, text(parameter, "name")).text(3, place).flag(4, required);
        wrapped(1, body.maybe(5, parameter.get("schema").map(schema)))
    } else {
        let plain = Message::default().flag(1, required).text(2, place).text(3, text(parameter, "description"));
        let plain = plain.text(4, text(parameter, "name"));
        let (kind, field) = if place == "path" { (5, 4) } else { (6, 3) };
        wrapped(2, wrapped(field, plain.text(kind, text(parameter, "type"))))
    };
    wrapped(1, inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_written_by_number_and_length() {
        let bytes = write(&json!({"swagger": "2.0", "info": {"title": "t"}, "definitions": {"D": {"type": "object"}}}));
        let definition = [10, 1, b'D', 18, 11, 178, 1, 8, 10, 6, b'o', b'b', b'j', b'e', b'c', b't'];
        let mut expected = vec![10, 3, b'2', b'.', b'0', 18, 3, 10, 1, b't', 66, 0];
        expected.extend([74, definition.len() as u8 + 2, 10, definition.len() as u8]);
        expected.extend(definition);
        assert_eq!(bytes, expected);
    }
}
