//! `managedFields` entries, and what an update does to them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Comparison, Element, Set, compare};
use crate::{Object, schema::Schema, time};

/// More Update managers than this are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager the oldest ones are merged into.
const ANCIENT: &str = "ancient-changes";

/// Who set fields, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// `Apply` or `Update`.
    pub operation: String,
    /// The field manager's name.
    pub name: String,
    /// The version of the object the fields are named in.
    pub api_version: String,
    /// The subresource written, empty for the object itself.
    pub subresource: String,
}

/// What a manager set, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The fields.
    pub fields: Set,
    /// The last change, to the second.
    pub time: Option<jiff::Timestamp>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers(pub BTreeMap<Manager, Entry>);

impl Managers {
    /// Reads `metadata.managedFields`; `None` where an entry makes no sense.
    pub fn of(object: &Object) -> Option<Self> {
        let mut out = Self::default();
        for entry in list(object) {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let manager = Manager { operation: text("operation"), name: text("manager"), api_version: text("apiVersion"), subresource: text("subresource") };
            let fields = Set::from_fields(entry.get("fieldsV1")?)?;
            let time = text("time").parse().ok();
            let known = out.0.entry(manager).or_default();
            *known = Entry { fields: known.fields.union(&fields), time: time.or(known.time) };
        }
        Some(out)
    }

    /// Writes `metadata.managedFields`, in upstream's order; without entries the field goes.
    pub fn write(&self, object: &mut Object) {
        let mut entries: Vec<_> = self.0.iter().filter(|(_, entry)| !entry.fields.is_empty()).collect();
        entries.sort_by(|(a, x), (b, y)| (&a.operation, x.time, &a.name, &a.api_version, &a.subresource).cmp(&(&b.operation, y.time, &b.name, &b.api_version, &b.subresource)));
        if entries.is_empty() {
            object.meta_mut().remove("managedFields");
            return;
        }
        let values = entries.into_iter().map(|(manager, entry)| encode(manager, entry)).collect();
        object.meta_mut().insert("managedFields".into(), Value::Array(values));
    }

    /// Merges the oldest Update managers where there are too many.
    fn cap(&mut self) {
        let mut updates: Vec<_> = self.0.iter().filter(|(m, _)| m.operation == "Update" && m.subresource.is_empty()).map(|(m, e)| (e.time, m.clone())).collect();
        updates.sort();
        let excess = updates.len().saturating_sub(MAX_UPDATE_MANAGERS);
        if excess == 0 {
            return;
        }
        for (_, manager) in updates.into_iter().take(excess + 1) {
            let Some(entry) = self.0.remove(&manager) else { continue };
            let bucket = self.0.entry(Manager { name: ANCIENT.into(), ..manager }).or_default();
            *bucket = Entry { fields: bucket.fields.union(&entry.fields), time: entry.time.max(bucket.time) };
        }
    }
}

fn encode(manager: &Manager, entry: &Entry) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| _ = out.insert(key.into(), value);
    put("manager", manager.name.as_str().into());
    put("operation", manager.operation.as_str().into());
    put("apiVersion", manager.api_version.as_str().into());
    if let Some(at) = entry.time {
        put("time", time::format_rfc3339_seconds(at).into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", entry.fields.to_fields());
    if !manager.subresource.is_empty() {
        put("subresource", manager.subresource.as_str().into());
    }
    Value::Object(out)
}

fn list(object: &Object) -> &[Value] {
    object.meta().get("managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// An update to attribute.
#[derive(Debug)]
pub struct UpdateRequest<'a> {
    /// Who updates.
    pub manager: &'a Manager,
    /// When.
    pub now: jiff::Timestamp,
    /// Fields that the write does not take over, whatever it says (`spec` for a write to `/status`).
    pub ignored: &'a Set,
}

/// Attributes what `new` changes of `old` to the manager, in `new`'s managedFields. `old` is the stored object; for a new one,
/// what an empty object of the kind looks like.
///
/// What cannot be made sense of is dropped rather than refused: a write never fails for its managedFields.
pub fn update(schema: &Schema, old: &Object, new: &mut Object, request: &UpdateRequest<'_>) {
    let mut managers = current(old, new, request.manager);
    if managers.0.is_empty() && !old.uid().is_empty() {
        // What was stored without managers stays so until somebody applies it.
        managers.write(new);
        return;
    }
    let (mut before, mut after) = (old.clone(), new.clone());
    for object in [&mut before, &mut after] {
        object.meta_mut().remove("managedFields");
    }
    let difference = compare(schema, &before.into_value(), &after.into_value());
    let Comparison { added, modified, removed } = difference;
    let ignored = request.ignored.union(&system_fields());
    let mut metadata = Set::new();
    metadata.insert(&[Element::Field("metadata".into())]);
    let taken = added.union(&modified).recursive_difference(&ignored).difference(&metadata);
    let removed = removed.recursive_difference(&ignored);
    for entry in managers.0.values_mut() {
        entry.fields = entry.fields.difference(&taken).difference(&removed);
    }
    if !taken.is_empty() {
        let entry = managers.0.entry(request.manager.clone()).or_default();
        entry.fields = entry.fields.union(&taken);
        entry.time = Some(request.now);
    }
    managers.0.retain(|_, entry| !entry.fields.is_empty());
    managers.cap();
    managers.write(new);
}

/// The managers before the update: those the new object brings, else the stored ones; none where it brings an empty list.
fn current(old: &Object, new: &Object, manager: &Manager) -> Managers {
    let stored = || Managers::of(old).unwrap_or_default();
    if !manager.subresource.is_empty() {
        return stored();
    }
    let reset = match list(new) {
        [] => new.meta().get("managedFields").is_some_and(Value::is_array),
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    if reset {
        return Managers::default();
    }
    Managers::of(new).filter(|managers| !managers.0.is_empty()).unwrap_or_else(stored)
}

/// Fields nobody manages: the server sets them.
pub(super) fn system_fields() -> Set {
    let fields = json!({
        "f:apiVersion": {}, "f:kind": {},
        "f:metadata": {
            "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {}, "f:clusterName": {},
            "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {},
        },
    });
    Set::from_fields(&fields).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Arena, Field, Kind, ListType, Node, Presence};
    use std::sync::Arc;

    fn schema() -> Schema {
        let mut arena = Arena::default();
        let text = arena.add(Node::new(Kind::String));
        let texts = arena.add(Node::new(Kind::Map(text)));
        let port = arena.define("Port", Node::new(Kind::Object(vec![Field::new("name", text), Field::new("port", text)])));
        let ports = arena.add(Node { list: ListType::Map(vec!["port".into()]), ..Node::new(Kind::Array(port)) });
        let spec = arena.define("Spec", Node::new(Kind::Object(vec![Field::new("ports", ports), Field::new("size", text)])));
        let meta = arena.define("Meta", Node::new(Kind::Object(vec![Field::new("name", text), Field::new("labels", texts)])));
        let always = |name: &str, node| Field { presence: Presence::Always, ..Field::new(name, node) };
        let id = arena.define("Thing", Node::new(Kind::Object(vec![Field::new("data", texts), always("metadata", meta), always("spec", spec)])));
        Schema::at(&Arc::new(arena), id)
    }

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn manager(name: &str) -> Manager {
        Manager { operation: "Update".into(), name: name.into(), api_version: "v1".into(), subresource: String::new() }
    }

    fn written(old: &Object, mut new: Object, by: &str, second: i64) -> Object {
        let now = jiff::Timestamp::from_second(second).unwrap();
        update(&schema(), old, &mut new, &UpdateRequest { manager: &manager(by), now, ignored: &Set::new() });
        new
    }

    fn fields(object: &Object, at: usize) -> (&str, &Value) {
        let entry = &list(object)[at];
        (entry["manager"].as_str().unwrap(), &entry["fieldsV1"])
    }

    #[test]
    fn a_new_object_belongs_to_its_creator_with_maps_and_items_of_their_own() {
        let new = object(json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"ports": [{"port": "80"}], "size": "1"}, "data": {"k": "v"}}));
        let stored = written(&object(schema().zero()), new, "me", 1);
        let expected = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:data": {".": {}, "f:k": {}},
            "f:spec": {"f:ports": {".": {}, "k:{\"port\":\"80\"}": {".": {}, "f:port": {}}}, "f:size": {}},
        });
        assert_eq!(fields(&stored, 0), ("me", &expected));
    }

    #[test]
    fn a_changed_field_moves_to_who_changed_it() {
        let mut first = written(&object(schema().zero()), object(json!({"metadata": {"name": "x"}, "data": {"k": "v", "l": "w"}})), "me", 1);
        first.set_uid("1");
        let mut changed = first.clone();
        changed.0.insert("data".into(), json!({"k": "new", "l": "w"}));
        let second = written(&first, changed, "you", 2);
        assert_eq!(fields(&second, 0), ("me", &json!({"f:data": {".": {}, "f:l": {}}})));
        assert_eq!(fields(&second, 1), ("you", &json!({"f:data": {"f:k": {}}})));
    }

    #[test]
    fn an_update_that_changes_nothing_leaves_managers_and_times_alone() {
        let mut first = written(&object(schema().zero()), object(json!({"metadata": {"name": "x"}, "data": {"k": "v"}})), "me", 1);
        first.set_uid("1");
        assert_eq!(written(&first, first.clone(), "you", 2), first);
    }

    #[test]
    fn an_empty_entry_forgets_all_managers_for_good() {
        let mut first = written(&object(schema().zero()), object(json!({"metadata": {"name": "x"}, "data": {"k": "v"}})), "me", 1);
        first.set_uid("1");
        let mut reset = first.clone();
        reset.meta_mut().insert("managedFields".into(), json!([{}]));
        let reset = written(&first, reset, "me", 2);
        assert!(list(&reset).is_empty());
        let mut changed = reset.clone();
        changed.0.insert("data".into(), json!({"k": "new"}));
        assert!(list(&written(&reset, changed, "me", 3)).is_empty());
    }
}
