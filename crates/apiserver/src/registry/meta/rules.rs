//! What may stand in each part of an object's metadata.

use apimachinery::{
    Object,
    field::{Error, ErrorKind, ErrorList, Path},
    names,
};
use serde_json::Value;

/// All annotations together, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn not_negative(path: &Path, value: i64) -> Error {
    Error::invalid(path, value, "must be greater than or equal to 0")
}

pub(super) fn labels(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in obj.labels() {
        errors.extend(names::is_qualified_name(&key).into_iter().map(|t| Error::invalid(path, key.as_str(), t)));
        errors.extend(names::is_valid_label_value(&value).into_iter().map(|t| Error::invalid(&path.key(&key), value.as_str(), t)));
    }
    errors
}

pub(super) fn annotations(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let annotations = obj.annotations();
    for key in annotations.keys() {
        let texts = names::is_qualified_name(&key.to_lowercase());
        errors.extend(texts.into_iter().map(|t| Error::invalid(path, key.as_str(), t)));
    }
    if annotations.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() > MAX_ANNOTATIONS {
        errors.push(Error::too_long(path, "", MAX_ANNOTATIONS));
    }
    errors
}

pub(super) fn owners(obj: &Object, path: &Path) -> ErrorList {
    let (mut errors, mut controller) = (ErrorList::new(), None::<String>);
    let owners = obj.owner_references();
    for owner in &owners {
        let (group, version) = group_version(&owner.api_version);
        if version.is_empty() {
            errors.push(Error::invalid(&path.child("apiVersion"), owner.api_version.as_str(), "version must not be empty"));
        }
        for (field, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                errors.push(Error::invalid(&path.child(field), "", "must not be empty"));
            }
        }
        if (group, version, owner.kind.as_str()) == ("", "v1", "Event") {
            errors.push(invalid_owners(path, owner, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.controller == Some(true) {
            let name = format!("{}/{}", owner.kind, owner.name);
            if let Some(first) = &controller {
                let found = format!("Found \"true\" in references for {first} and {name}");
                errors.push(invalid_owners(path, &owners, &format!("Only one reference can have Controller set to true. {found}")));
            } else {
                controller = Some(name);
            }
        }
    }
    errors
}

/// The two parts of an `apiVersion`; both empty where it has more.
fn group_version(api_version: &str) -> (&str, &str) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.contains('/') { ("", "") } else { (group, version) }
}

/// "Invalid value" with the owners' fields in the order in which upstream declares them, which a JSON value does not keep.
fn invalid_owners(path: &Path, owners: &impl serde::Serialize, detail: &str) -> Error {
    let shown = serde_json::to_string(owners).unwrap_or_default();
    Error::new(ErrorKind::Invalid, path, None, format!("{shown}: {detail}"))
}

/// Finalizers that need no domain.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

pub(super) fn finalizers(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let list = obj.finalizers();
    for finalizer in &list {
        errors.extend(names::is_qualified_name(finalizer).into_iter().map(|t| Error::invalid(path, finalizer.as_str(), t)));
    }
    let has = |name: &str| list.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(Error::invalid(path, list_value(&list), "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    errors
}

pub(super) fn unqualified_finalizers(obj: &Object, path: &Path) -> ErrorList {
    const TEXT: &str = "name is neither a standard finalizer name nor is it fully qualified";
    let list = obj.finalizers();
    let unqualified = list.iter().enumerate().filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str()));
    unqualified.map(|(at, name)| Error::invalid(&path.index(at), name.as_str(), TEXT)).collect()
}

fn list_value(list: &[String]) -> Value {
    list.iter().map(|s| Value::from(s.as_str())).collect()
}

/// Longest name of a manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;
/// Longest name of the subresource it wrote through.
const MAX_SUBRESOURCE: usize = 256;

/// Checks a manager's name, wherever it stands.
pub(crate) fn manager(name: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if name.len() > MAX_MANAGER {
        errors.push(Error::too_long(path, "", MAX_MANAGER));
    }
    let bad = name.char_indices().filter(|(_, c)| c.is_control());
    errors.extend(bad.map(|(at, c)| Error::invalid(path, name, format!("invalid character U+{:04X} (at position {at})", u32::from(c)))));
    errors
}

pub(super) fn managers(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let entries = obj.meta().get("managedFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, entry) in entries.iter().enumerate() {
        let path = path.index(at);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if !["Apply", "Update"].contains(&text("operation")) {
            errors.push(Error::invalid(&path.child("operation"), text("operation"), "must be `Apply` or `Update`"));
        }
        if !["", "FieldsV1"].contains(&text("fieldsType")) {
            errors.push(Error::invalid(&path.child("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        errors.extend(manager(text("manager"), &path.child("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(Error::too_long(&path.child("subresource"), "", MAX_SUBRESOURCE));
        }
    }
    errors
}
