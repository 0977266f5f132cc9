//! Schemas of custom resources, out of the OpenAPI schema their author wrote.

use std::sync::Arc;

use serde_json::Value;

use super::{Arena, DecodeError, Decoded, Field, Id, Kind, ListType, Node, Presence, Schema};
use crate::raw;

/// Builds the schema of a custom resource version from its `openAPIV3Schema`. `object_meta` is the schema of metadata.
///
/// What structural schemas may not say is ignored: the definition has been validated before.
pub fn structural(name: &str, root: &Value, object_meta: &Schema) -> Schema {
    let mut builder = Builder { arena: Arena::default(), meta: Id::default() };
    builder.meta = builder.arena.import(object_meta);
    let node = builder.node(root, true);
    let id = builder.arena.define(name, node);
    builder.arena.custom = Some(id);
    Schema::at(&Arc::new(builder.arena), id)
}

/// Builds the schema of a part of a custom resource, such as the type of one of its fields.
pub fn structural_part(schema: &Value, object_meta: &Schema) -> Schema {
    let mut builder = Builder { arena: Arena::default(), meta: Id::default() };
    builder.meta = builder.arena.import(object_meta);
    let id = builder.below(Some(schema));
    Schema::at(&Arc::new(builder.arena), id)
}

struct Builder {
    arena: Arena,
    meta: Id,
}

impl Builder {
    fn node(&mut self, schema: &Value, root: bool) -> Node {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let has = |name: &str| schema.get(name).is_some_and(|value| !value.is_null());
        let embedded = flag("x-kubernetes-embedded-resource");
        let preserve = flag("x-kubernetes-preserve-unknown-fields");
        let kind = match text("type") {
            _ if flag("x-kubernetes-int-or-string") => Kind::IntOrString,
            "object" => self.object(schema, root || embedded),
            "array" => Kind::Array(self.below(schema.get("items"))),
            "string" => Kind::String,
            "integer" => Kind::Int64,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            // Without a type anything goes, but what the schema does say about members holds for objects.
            _ if has("properties") || has("additionalProperties") => self.object(schema, root || embedded),
            _ => Kind::Any,
        };
        Node {
            atomic: text("x-kubernetes-map-type") == "atomic",
            list: list_type(schema),
            list_stated: schema.get("x-kubernetes-list-type").is_some(),
            preserve_unknown: preserve || (has("properties") && has("additionalProperties")),
            embedded,
            nullable: flag("nullable"),
            ..Node::new(kind)
        }
    }

    fn below(&mut self, schema: Option<&Value>) -> Id {
        let node = self.node(schema.unwrap_or(&Value::Null), false);
        self.arena.add(node)
    }

    fn object(&mut self, schema: &Value, resource: bool) -> Kind {
        if schema.get("properties").is_none()
            && let Some(values) = schema.get("additionalProperties").filter(|values| !values.is_null())
        {
            return Kind::Map(self.below(Some(values).filter(|values| values.is_object())));
        }
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut fields: Vec<Field> = Vec::new();
        for (name, property) in properties {
            if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let node = self.below(Some(property));
            fields.push(Field {
                required: required.iter().any(|other| other == name),
                default: property.get("default").cloned(),
                ..Field::new(name, node)
            });
        }
        if resource {
            let text = self.arena.add(Node::new(Kind::String));
            fields.extend(["apiVersion", "kind"].map(|name| Field { presence: Presence::OmitEmpty, ..Field::new(name, text) }));
            fields.push(Field { presence: Presence::Always, ..Field::new("metadata", self.meta) });
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Kind::Object(fields)
    }
}

fn list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
            ListType::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

impl Schema {
    /// Reads a custom resource: duplicates are told first, then what the schema does not know, sorted. Only metadata must have the
    /// right types; the rest is for validation to judge.
    pub(super) fn decode_custom(&self, node: &raw::Node<'_>) -> Result<Decoded, DecodeError> {
        if !matches!(node, raw::Node::Object(_) | raw::Node::Null) {
            let what = node.type_name();
            return Err(DecodeError(format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}")));
        }
        let mut strict: Vec<String> = raw::duplicates(node).into_iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        let mut value = node.to_value();
        let mut dropped = self.prune(&mut value);
        dropped.extend(self.coerce(&mut value).map_err(|error| DecodeError(error.to_string()))?);
        let mut unknown: Vec<String> = dropped.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
        if let (Some(schema), Some(meta)) = (self.member("metadata"), node.get("metadata")) {
            let decoded = schema.decode(meta)?;
            let inside = decoded.strict.iter().filter(|message| message.starts_with("unknown field"));
            unknown.extend(inside.map(|message| message.replacen("field \"", "field \"metadata.", 1)));
            if let Value::Object(fields) = &mut value {
                fields.insert("metadata".into(), decoded.value);
            }
        }
        unknown.sort();
        strict.extend(unknown);
        let mut value = if value.is_object() { value } else { self.zero() };
        if let Value::Object(fields) = &mut value {
            fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
        }
        Ok(Decoded { value, strict })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use serde_json::json;

    fn widget() -> Schema {
        let meta = sample::pod().member("metadata").unwrap();
        let items = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let spec = json!({"type": "object", "properties": {
            "size": {"type": "integer"},
            "color": {"type": "string", "default": "red"},
            "any": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"n": {"type": "object"}}},
            "parts": {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "props": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        structural("com.test.v1.Widget", &json!({"type": "object", "properties": {"spec": spec}}), &meta)
    }

    #[test]
    fn unknown_fields_are_dropped_and_told_and_types_left_to_validation() {
        let text = r#"{"kind":"Widget","extra":1,"metadata":{"name":"a","bogus":1},"spec":{"size":"x","size":1,"parts":[{"z":1}],"free":{"a":{"b":1},"n":{"z":1}},"props":{"k":1}}}"#;
        let decoded = widget().decode(&raw::parse_json(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            decoded.strict,
            [
                "duplicate field \"spec.size\"",
                "unknown field \"extra\"",
                "unknown field \"metadata.bogus\"",
                "unknown field \"spec.free.n.z\"",
                "unknown field \"spec.parts[0].z\"",
            ]
        );
        let spec = json!({"size": 1, "parts": [{}], "free": {"a": {"b": 1}, "n": {}}, "props": {"k": 1}});
        assert_eq!(decoded.value, json!({"kind": "Widget", "metadata": {"name": "a"}, "spec": spec}));
    }

    #[test]
    fn metadata_must_have_the_right_types() {
        let error = widget().decode_value(&json!({"metadata": {"labels": {"a": 1}}})).unwrap_err();
        assert_eq!(error.0, "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string");
    }

    #[test]
    fn defaults_fill_in_and_nulls_go_unless_nullable() {
        let mut value = json!({"spec": {"color": null, "size": null, "any": null, "maybe": null}});
        widget().default(&mut value);
        assert_eq!(value, json!({"spec": {"color": "red", "maybe": null}}));
    }
}
