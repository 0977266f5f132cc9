//! Resources inside of custom resources: they need a type, and metadata that keeps the rules.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    gvk::GroupVersion,
    names,
    schema::{Kind, Schema},
};
use serde_json::{Map, Value};

use crate::registry::meta;

/// What is wrong with a text.
type Check = fn(&str) -> Vec<String>;

/// What is wrong with the embedded resources of an object.
pub(super) fn validate(schema: &Schema, object: &Object) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, value) in object.0.iter().filter(|(name, _)| *name != "metadata") {
        if let Some(member) = schema.member(name) {
            walk(&member, value, &Path::new(name), &mut errors);
        }
    }
    errors
}

fn walk(schema: &Schema, value: &Value, path: &Path, errors: &mut ErrorList) {
    match value {
        Value::Object(members) => {
            let embedded = schema.node().embedded;
            if embedded {
                resource(members, path, errors);
            }
            let map = matches!(schema.node().kind, Kind::Map(_));
            for (name, member) in members.iter().filter(|(name, _)| !(embedded && *name == "metadata")) {
                if let Some(inner) = schema.member(name) {
                    walk(&inner, member, &if map { path.key(name) } else { path.child(name) }, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.items() {
                items.iter().enumerate().for_each(|(at, item)| walk(&inner, item, &path.index(at), errors));
            }
        }
        _ => {}
    }
}

fn resource(members: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let checks: [(&str, Check); 2] = [("apiVersion", api_version), ("kind", kind)];
    for (name, check) in checks {
        let path = path.child(name);
        match members.get(name) {
            None => errors.push(Error::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => errors.push(Error::invalid(&path, "", "must not be empty")),
            Some(Value::String(text)) => errors.extend(check(text).into_iter().map(|why| Error::invalid(&path, text.as_str(), why))),
            Some(other) => errors.push(Error::invalid(&path, other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = members.get("metadata") {
        let object = Object(Map::from_iter([("metadata".to_owned(), metadata.clone())]));
        errors.extend(meta::validate_embedded(&object, &path.child("metadata")));
    }
}

fn api_version(text: &str) -> Vec<String> {
    GroupVersion::parse(text).err().map(|error| error.to_string()).into_iter().collect()
}

fn kind(text: &str) -> Vec<String> {
    let errors = names::is_dns1035_label(&text.to_lowercase());
    let words = || format!("may have mixed case, but should otherwise match: {}", errors.join(","));
    (!errors.is_empty()).then(words).into_iter().collect()
}
