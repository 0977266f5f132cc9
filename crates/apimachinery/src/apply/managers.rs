//! Who manages which fields: `metadata.managedFields` in memory.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::set::FieldSet;
use crate::{go, time};

/// Whether a manager applies configurations or updates objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    Update,
}

/// What identifies a manager. An applier is the same whatever version it applies in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Name the client gave.
    pub name: String,
    /// How it manages.
    pub operation: Operation,
    /// API version of updates; empty for appliers.
    pub api_version: String,
    /// Through which subresource; empty for the object itself.
    pub subresource: String,
}

/// What a manager manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Managed {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managers(pub(super) BTreeMap<Manager, Managed>);

impl Manager {
    /// The manager as conflict messages name it.
    pub(super) fn describe(&self) -> String {
        let mut out = go::quote(&self.name);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {}", go::quote(&self.subresource)));
        }
        if self.operation == Operation::Update {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

impl Managers {
    /// Reads `metadata.managedFields`; `None` if an entry is malformed.
    pub(super) fn read(meta: &Map<String, Value>) -> Option<Self> {
        let entries = meta.get("managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        entries.iter().map(read_entry).collect::<Option<_>>().map(Self)
    }

    /// The entries of `metadata.managedFields`, in upstream's order.
    pub(super) fn write(&self) -> Vec<Value> {
        let mut entries: Vec<_> = self.0.iter().collect();
        let second = |managed: &Managed| managed.time.map_or(i64::MIN, |time| time.as_second());
        entries.sort_by_key(|(manager, managed)| {
            let Manager { name, operation, subresource, .. } = manager;
            (*operation, second(managed), name.clone(), managed.api_version.clone(), subresource.clone())
        });
        entries.into_iter().map(|(manager, managed)| write_entry(manager, managed)).collect()
    }

    /// Each manager with the version it manages fields of.
    pub(super) fn versions(&self) -> Vec<(Manager, String)> {
        self.0.iter().map(|(manager, managed)| (manager.clone(), managed.api_version.clone())).collect()
    }

    /// Takes fields from a manager; one without fields is no manager any more.
    pub(super) fn take(&mut self, manager: &Manager, gone: &FieldSet) {
        if let Some(managed) = self.0.get_mut(manager) {
            managed.set = managed.set.difference(gone);
            if managed.set.is_empty() {
                self.0.remove(manager);
            }
        }
    }

    /// Merges the oldest updaters of a version into one, so that at most `max` updaters remain.
    pub(super) fn cap(&mut self, max: usize) {
        let updaters = self.0.iter().filter(|(manager, _)| manager.operation == Operation::Update);
        let mut updaters: Vec<_> = updaters.map(|(manager, managed)| (managed.time, manager.clone())).collect();
        let mut count = updaters.len();
        updaters.sort();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for (time, manager) in updaters {
            if count <= max {
                break;
            }
            let version = manager.api_version.clone();
            let bucket = Manager {
                name: "ancient-changes".into(),
                operation: Operation::Update,
                api_version: version.clone(),
                subresource: String::new(),
            };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            if !self.0.contains_key(&bucket) {
                let moved = self.0.remove(first);
                self.0.extend(moved.map(|moved| (bucket.clone(), moved)));
            }
            let Some(merged) = self.0.remove(&manager) else {
                continue;
            };
            if let Some(kept) = self.0.get_mut(&bucket) {
                kept.set = std::mem::take(&mut kept.set).union(&merged.set);
                kept.time = time;
            }
            count -= 1;
        }
    }
}

fn read_entry(entry: &Value) -> Option<(Manager, Managed)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
        return None;
    }
    let api_version = text("apiVersion").to_owned();
    let manager = Manager {
        name: text("manager").into(),
        operation,
        api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
        subresource: text("subresource").into(),
    };
    let set = entry.get("fieldsV1").map_or_else(|| Some(FieldSet::default()), FieldSet::from_value)?;
    Some((manager, Managed { set, api_version, time: text("time").parse().ok() }))
}

fn write_entry(manager: &Manager, managed: &Managed) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.into(), value);
    if !manager.name.is_empty() {
        put("manager", manager.name.clone().into());
    }
    put("operation", if manager.operation == Operation::Apply { "Apply".into() } else { "Update".into() });
    put("apiVersion", managed.api_version.clone().into());
    if let Some(at) = managed.time {
        put("time", time::format_rfc3339_seconds(at).into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", managed.set.to_value());
    if !manager.subresource.is_empty() {
        put("subresource", manager.subresource.clone().into());
    }
    Value::Object(entry)
}
