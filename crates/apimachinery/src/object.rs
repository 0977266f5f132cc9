//! One object model for every kind: a JSON object with accessors for what all kinds share.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::gvk::{GroupVersion, GroupVersionKind, ParseError};

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// An API object of any kind, as JSON.
///
/// Reading a field that is absent or of another type gives the empty value, as reading a zero field of a Go struct would; what comes
/// from clients is checked by the schema before it becomes an `Object` anybody relies on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, in the same namespace or cluster-scoped.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this owner is the managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Object {
    /// An empty object of the given kind.
    pub fn new(gvk: &GroupVersionKind) -> Self {
        let mut object = Self::default();
        object.set_gvk(gvk);
        object
    }

    /// The object in `value`, or the value back if it is no JSON object.
    pub fn from_value(value: Value) -> Result<Self, Value> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(other),
        }
    }

    /// The object as a JSON value.
    pub fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Turns the object into a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Reads the object as a typed view.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        // Deserialising from the borrowed map would need a clone as well: serde_json implements it for `&Value` only.
        serde_json::from_value(self.value())
    }

    /// Writes a typed view as an object. Fails if the type does not serialise to a JSON object.
    pub fn from_typed<T: Serialize>(typed: &T) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(typed)?)
    }

    /// The value at a JSON pointer such as `/spec/replicas`.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = split_pointer(pointer)?;
        let value = self.0.get(&first)?;
        if rest.is_empty() { Some(value) } else { value.pointer(rest) }
    }

    /// The value at a JSON pointer, to change it.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        let (first, rest) = split_pointer(pointer)?;
        let value = self.0.get_mut(&first)?;
        if rest.is_empty() { Some(value) } else { value.pointer_mut(rest) }
    }

    /// A text at a JSON pointer; empty if absent.
    pub fn str_at(&self, pointer: &str) -> &str {
        self.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        text(&self.0, "apiVersion")
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        text(&self.0, "kind")
    }

    /// Group, version and kind. Fails if `apiVersion` has more than one slash.
    pub fn gvk(&self) -> Result<GroupVersionKind, ParseError> {
        Ok(GroupVersion::parse(self.api_version())?.with_kind(self.kind()))
    }

    /// Sets `apiVersion` and `kind`.
    pub fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        self.set_api_version(&gvk.api_version());
        self.0.insert("kind".into(), gvk.kind.clone().into());
    }

    /// Sets `apiVersion`.
    pub fn set_api_version(&mut self, api_version: &str) {
        self.0.insert("apiVersion".into(), api_version.into());
    }

    /// `metadata`; empty if absent.
    pub fn meta(&self) -> &Map<String, Value> {
        self.0.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
    }

    /// `metadata`, created if absent or not an object.
    pub fn meta_mut(&mut self) -> &mut Map<String, Value> {
        child(&mut self.0, "metadata")
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        text(self.meta(), "name")
    }

    /// Sets `metadata.name`.
    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    /// `metadata.generateName`.
    pub fn generate_name(&self) -> &str {
        text(self.meta(), "generateName")
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        text(self.meta(), "namespace")
    }

    /// Sets `metadata.namespace`; empty removes it.
    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        text(self.meta(), "uid")
    }

    /// Sets `metadata.uid`; empty removes it.
    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        text(self.meta(), "resourceVersion")
    }

    /// Sets `metadata.resourceVersion`; empty removes it.
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_text("resourceVersion", version);
    }

    /// `metadata.generation`; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.meta().get("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Sets `metadata.generation`; 0 removes it.
    pub fn set_generation(&mut self, generation: i64) {
        let value = (generation != 0).then(|| generation.into());
        set(self.meta_mut(), "generation", value);
    }

    /// `metadata.creationTimestamp`, if it is there and parses.
    pub fn creation_timestamp(&self) -> Option<jiff::Timestamp> {
        text(self.meta(), "creationTimestamp").parse().ok()
    }

    /// Sets `metadata.creationTimestamp`, to the second.
    pub fn set_creation_timestamp(&mut self, at: Option<jiff::Timestamp>) {
        self.set_time("creationTimestamp", at);
    }

    /// `metadata.deletionTimestamp`, if it is there and parses.
    pub fn deletion_timestamp(&self) -> Option<jiff::Timestamp> {
        text(self.meta(), "deletionTimestamp").parse().ok()
    }

    /// Sets `metadata.deletionTimestamp`, to the second.
    pub fn set_deletion_timestamp(&mut self, at: Option<jiff::Timestamp>) {
        self.set_time("deletionTimestamp", at);
    }

    /// `metadata.deletionGracePeriodSeconds`.
    pub fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.meta().get("deletionGracePeriodSeconds").and_then(Value::as_i64)
    }

    /// Sets `metadata.deletionGracePeriodSeconds`.
    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        set(self.meta_mut(), "deletionGracePeriodSeconds", seconds.map(Value::from));
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> BTreeMap<String, String> {
        texts(self.meta().get("labels"))
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta().get("labels")?.get(key)?.as_str()
    }

    /// Sets `metadata.labels`; an empty map removes the field.
    pub fn set_labels(&mut self, labels: BTreeMap<String, String>) {
        set(self.meta_mut(), "labels", from_texts(labels));
    }

    /// Sets one label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        child(self.meta_mut(), "labels").insert(key.into(), value.into());
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        texts(self.meta().get("annotations"))
    }

    /// The value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().get("annotations")?.get(key)?.as_str()
    }

    /// Sets `metadata.annotations`; an empty map removes the field.
    pub fn set_annotations(&mut self, annotations: BTreeMap<String, String>) {
        set(self.meta_mut(), "annotations", from_texts(annotations));
    }

    /// Sets one annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        child(self.meta_mut(), "annotations").insert(key.into(), value.into());
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<String> {
        let items = self.meta().get("finalizers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Sets `metadata.finalizers`; an empty list removes the field.
    pub fn set_finalizers(&mut self, finalizers: Vec<String>) {
        let value = (!finalizers.is_empty()).then(|| finalizers.into());
        set(self.meta_mut(), "finalizers", value);
    }

    /// `metadata.ownerReferences`; entries of another shape are left out.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        let items = self.meta().get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
    }

    /// Sets `metadata.ownerReferences`; an empty list removes the field.
    pub fn set_owner_references(&mut self, owners: &[OwnerReference]) {
        let value = (!owners.is_empty()).then(|| serde_json::to_value(owners).unwrap_or_default());
        set(self.meta_mut(), "ownerReferences", value);
    }

    /// The owner marked as controller.
    pub fn controller_of(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller == Some(true))
    }

    fn set_text(&mut self, key: &str, value: &str) {
        let value = (!value.is_empty()).then(|| value.into());
        set(self.meta_mut(), key, value);
    }

    fn set_time(&mut self, key: &str, at: Option<jiff::Timestamp>) {
        let value = at.map(|at| crate::time::format_rfc3339_seconds(at).into());
        set(self.meta_mut(), key, value);
    }
}

fn split_pointer(pointer: &str) -> Option<(String, &str)> {
    let pointer = pointer.strip_prefix('/')?;
    let end = pointer.find('/').unwrap_or(pointer.len());
    Some((pointer[..end].replace("~1", "/").replace("~0", "~"), &pointer[end..]))
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn set(fields: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(key.into(), value),
        None => fields.remove(key),
    };
}

fn child<'a>(fields: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = fields.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object just above"),
    }
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let Some(fields) = value.and_then(Value::as_object) else {
        return BTreeMap::new();
    };
    fields.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn from_texts(texts: BTreeMap<String, String>) -> Option<Value> {
    (!texts.is_empty()).then(|| texts.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Object {
        Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"a/b": "c"}, "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"containers": [{"name": "c"}]},
        }))
        .unwrap()
    }

    #[test]
    fn reads_shared_fields_and_pointers() {
        let pod = pod();
        assert_eq!((pod.name(), pod.namespace(), pod.label("a/b")), ("p", "", Some("c")));
        assert_eq!(pod.str_at("/spec/containers/0/name"), "c");
        assert_eq!(pod.str_at("/metadata/labels/a~1b"), "c");
        assert_eq!(pod.creation_timestamp().unwrap().as_second(), 1704164645);
    }

    #[test]
    fn setting_an_empty_value_removes_the_field() {
        let mut pod = pod();
        pod.set_uid("u");
        pod.set_uid("");
        pod.set_labels(BTreeMap::new());
        assert!(!pod.meta().contains_key("uid") && !pod.meta().contains_key("labels"));
    }

    #[test]
    fn times_are_written_to_the_second() {
        let mut pod = pod();
        pod.set_deletion_timestamp(Some("2024-01-02T03:04:05.678Z".parse().unwrap()));
        assert_eq!(pod.str_at("/metadata/deletionTimestamp"), "2024-01-02T03:04:05Z");
    }
}
