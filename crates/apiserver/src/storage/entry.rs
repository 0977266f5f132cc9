//! One stored object: its JSON with the resourceVersion spliced in, and what selectors look at.
//!
//! Objects are written `{"kind":…,"apiVersion":…,"metadata":{…},…}`, as kube-apiserver writes them. So the resourceVersion
//! can be spliced in behind `"metadata":{`, and the item of a list, which carries no type, is a suffix.

use std::io::Write as _;
use std::sync::Arc;

use apimachinery::{Object, cbor};
use bytes::Bytes;
use serde_json::Value;

use super::partly::object_without;
use super::{Attributes, Collection, Error, Key, Result, Revision};
use crate::protobuf;

const METADATA: &[u8] = b"\"metadata\":{";

/// A stored object; cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct Entry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    key: Key,
    revision: Revision,
    json: Bytes,
    body: usize,
    attributes: Arc<Attributes>,
}

impl Entry {
    /// Reads a stored value: JSON, or the protobuf or CBOR that kube-apiserver may store it in. Errors: `Decode`, when it is none of these.
    pub(crate) fn from_stored(collection: &Collection, key: Key, stored: &[u8], revision: Revision) -> Result<Self> {
        let object = parse(stored).map_err(|source| Error::Decode { key: format!("{}/{key}", collection.prefix), source })?;
        let attributes = Arc::new(Attributes::of(collection, &object));
        let json = match splice(stored, revision) {
            Some(json) => json,
            None => splice(&encode(&object), revision).unwrap_or_default(),
        };
        Ok(Self::assemble(key, revision, json, attributes))
    }

    /// The entry an object becomes once stored as `stored` (see [`encode`]) at `revision`.
    pub(crate) fn from_written(collection: &Collection, key: Key, object: &Object, stored: &[u8], revision: Revision) -> Self {
        let attributes = Arc::new(Attributes::of(collection, object));
        Self::assemble(key, revision, splice(stored, revision).unwrap_or_default(), attributes)
    }

    fn assemble(key: Key, revision: Revision, json: Vec<u8>, attributes: Arc<Attributes>) -> Self {
        let body = find(&json, METADATA).unwrap_or(1);
        Self(Arc::new(Inner { key, revision, json: json.into(), body, attributes }))
    }

    /// The same object with another resourceVersion: what a DELETED event shows.
    pub(crate) fn at_revision(&self, revision: Revision) -> Self {
        let mut object = self.object();
        object.set_resource_version("");
        let json = splice(&encode(&object), revision).unwrap_or_default();
        Self::assemble(self.0.key.clone(), revision, json, self.0.attributes.clone())
    }

    /// Name and namespace.
    pub(crate) fn key(&self) -> &Key {
        &self.0.key
    }

    /// The revision that wrote it.
    pub(crate) fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Labels and selectable fields.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.0.attributes
    }

    /// The value of a selectable field.
    pub(crate) fn field(&self, path: &str) -> Option<&str> {
        let key = &self.0.key;
        match path {
            "metadata.name" => Some(&key.name),
            "metadata.namespace" => Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
            _ => self.0.attributes.fields.iter().find(|(known, _)| known == path).map(|(_, value)| value.as_str()),
        }
    }

    /// The object in JSON, with type and resourceVersion.
    pub(crate) fn json(&self) -> &Bytes {
        &self.0.json
    }

    /// The object in JSON but for `kind`, `apiVersion` and the opening brace: write `{` before it to get an item of a list.
    pub(crate) fn item_json(&self) -> &[u8] {
        &self.0.json[self.0.body..]
    }

    /// The object's metadata in JSON.
    pub(crate) fn metadata_json(&self) -> &[u8] {
        let rest = self.0.json.get(self.0.body + METADATA.len() - 1..).unwrap_or_default();
        &rest[..object_end(rest)]
    }

    /// Whether this is what `stored` looks like at this entry's revision.
    pub(crate) fn is_stored_as(&self, stored: &[u8]) -> bool {
        splice(stored, self.0.revision).is_some_and(|json| self.0.json == json)
    }

    /// Parses the object anew, without the members of these names wherever they are.
    pub(crate) fn object_without(&self, names: &[&str]) -> Object {
        Object(object_without(&self.0.json, names).unwrap_or_default())
    }

    /// Parses the object anew.
    pub(crate) fn object(&self) -> Object {
        // What `json` holds was parsed or written here, so it parses.
        Object(serde_json::from_slice(&self.0.json).unwrap_or_default())
    }
}

fn parse(stored: &[u8]) -> std::result::Result<Object, Box<dyn std::error::Error + Send + Sync>> {
    if protobuf::is_sealed(stored) {
        return Ok(protobuf::read_stored(stored)?);
    }
    if cbor::is_sealed(stored) {
        return match cbor::decode(stored)?.to_value() {
            Value::Object(fields) => Ok(Object(fields)),
            _ => Err("what is stored is no object".into()),
        };
    }
    Ok(Object(serde_json::from_slice(stored)?))
}

/// An object as it is stored: type, metadata without resourceVersion, the rest.
pub(crate) fn encode(object: &Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut separator = b'{';
    let mut member = |name: &str, value: &Value| {
        out.push(separator);
        separator = b',';
        // Writing JSON values into memory cannot fail.
        let _ = serde_json::to_writer(&mut out, name);
        out.push(b':');
        let _ = serde_json::to_writer(&mut out, value);
    };
    for name in ["kind", "apiVersion"] {
        if let Some(value) = object.0.get(name) {
            member(name, value);
        }
    }
    let mut metadata = object.0.get("metadata").cloned().unwrap_or_else(|| Value::Object(Default::default()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    member("metadata", &metadata);
    for (name, value) in object.0.iter().filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion" | "metadata")) {
        member(name, value);
    }
    out.push(b'}');
    out
}

/// Puts the resourceVersion into a stored object; `None` if it does not begin as [`encode`] would have it.
fn splice(stored: &[u8], revision: Revision) -> Option<Vec<u8>> {
    let stored = stored.trim_ascii();
    let at = find(stored, METADATA)? + METADATA.len();
    let mut out = Vec::with_capacity(stored.len() + 48);
    out.extend_from_slice(&stored[..at]);
    let _ = write!(out, "\"resourceVersion\":\"{revision}\"");
    if stored.get(at) != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(&stored[at..]);
    Some(out)
}

/// How long the JSON object is that `json` begins with.
fn object_end(json: &[u8]) -> usize {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' if !in_text => depth += 1,
            b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    json.len()
}

/// Where `"metadata":{` begins, if nothing but `kind` and `apiVersion`, with plain values, is before it.
fn find(json: &[u8], needle: &[u8]) -> Option<usize> {
    let mut at = 1;
    json.first().filter(|first| **first == b'{')?;
    for _ in 0..3 {
        let rest = &json[at..];
        if rest.starts_with(needle) {
            return Some(at);
        }
        let value = rest.strip_prefix(b"\"kind\":\"").or_else(|| rest.strip_prefix(b"\"apiVersion\":\""))?;
        let end = value.iter().position(|byte| matches!(byte, b'"' | b'\\')).filter(|end| value[*end] == b'"')?;
        at += rest.len() - value.len() + end + 1;
        (json.get(at) == Some(&b',')).then_some(())?;
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::gvk::GroupResource;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object(value.as_object().cloned().unwrap())
    }

    fn configmaps() -> Collection {
        Collection::new(GroupResource::new("", "configmaps"), "/registry/configmaps")
    }

    #[test]
    fn stores_type_and_metadata_first_and_no_resource_version() {
        let object =
            object(json!({"apiVersion": "v1", "data": {"a": "b"}, "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "7"}}));
        let stored = String::from_utf8(encode(&object)).unwrap();
        assert_eq!(stored, r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"b"}}"#);
    }

    #[test]
    fn shows_the_revision_and_drops_the_type_from_items() {
        let stored = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"b"}}"#;
        let entry = Entry::from_stored(&configmaps(), Key::new("n", "x"), stored, 9).unwrap();
        assert_eq!(entry.object().resource_version(), "9");
        assert_eq!(entry.item_json(), br#""metadata":{"resourceVersion":"9","name":"x"},"data":{"a":"b"}}"#);
        assert_eq!(entry.metadata_json(), br#"{"resourceVersion":"9","name":"x"}"#);
        assert_eq!(entry.at_revision(12).object().resource_version(), "12");
    }

    #[test]
    fn reads_values_written_in_another_order() {
        let stored = br#"{ "apiVersion":"v1", "data":{"metadata":{}}, "kind":"ConfigMap", "metadata":{"name":"x"}}"#;
        let entry = Entry::from_stored(&configmaps(), Key::new("n", "x"), stored, 9).unwrap();
        assert_eq!(entry.object().resource_version(), "9");
        assert!(entry.item_json().starts_with(br#""metadata":{"resourceVersion":"9""#));
    }

    #[test]
    fn reads_what_kube_apiserver_stores_in_protobuf() {
        let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {"a": "b"}});
        let stored = protobuf::encode(&value).unwrap();
        let entry = Entry::from_stored(&configmaps(), Key::new("n", "x"), &stored, 9).unwrap();
        assert_eq!(entry.item_json(), br#""metadata":{"resourceVersion":"9","name":"x"},"data":{"a":"b"}}"#);
        assert!(!entry.is_stored_as(&stored));
    }

    #[test]
    fn reads_what_kube_apiserver_stores_in_cbor() {
        let value = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "x"}, "size": 1});
        let entry = Entry::from_stored(&configmaps(), Key::new("n", "x"), &cbor::encode(&value, None), 9).unwrap();
        assert_eq!(entry.item_json(), br#""metadata":{"resourceVersion":"9","name":"x"},"size":1}"#);
    }

    #[test]
    fn refuses_values_that_are_no_objects() {
        for stored in [&b"k8s\0binary"[..], b"text", &[0xd9, 0xd9, 0xf7, 1], &[0xd9, 0xd9, 0xf7]] {
            let refused = Entry::from_stored(&configmaps(), Key::new("n", "x"), stored, 9);
            assert!(matches!(refused, Err(Error::Decode { .. })));
        }
    }
}
