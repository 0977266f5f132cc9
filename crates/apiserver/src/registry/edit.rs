//! Changing JSON objects in place: the verbs defaulting and preparation are written in.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Fields = Map<String, Value>;

/// Sets `key` where it is absent or null (Go: a nil pointer).
pub(crate) fn default_to(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    if fields.get(key).is_none_or(Value::is_null) {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Sets `key` where it is absent or zero (Go: a plain string, integer or list with `omitempty`).
pub(crate) fn default_zero(fields: &mut Fields, key: &str, value: impl Into<Value>) {
    if fields.get(key).is_none_or(is_zero) {
        fields.insert(key.to_owned(), value.into());
    }
}

/// True for null, false, 0, "", [] and {}.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// Removes `key` where its value is zero.
pub(crate) fn drop_zero(fields: &mut Fields, key: &str) {
    if fields.get(key).is_some_and(is_zero) {
        fields.remove(key);
    }
}

/// The object under `key`, if there is one.
pub(crate) fn object<'a>(fields: &'a mut Fields, key: &str) -> Option<&'a mut Fields> {
    fields.get_mut(key).and_then(Value::as_object_mut)
}

/// The object along a path of keys, if all are there.
pub(crate) fn object_at<'a>(fields: &'a mut Fields, path: &[&str]) -> Option<&'a mut Fields> {
    path.iter().try_fold(fields, |fields, key| object(fields, key))
}

/// The object under `key`, made empty where there is none.
pub(crate) fn ensure_object<'a>(fields: &'a mut Fields, key: &str) -> &'a mut Fields {
    let value = fields.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// The objects of the list under `key`.
pub(crate) fn each<'a>(fields: &'a mut Fields, key: &str) -> impl Iterator<Item = &'a mut Fields> {
    fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The strings of the list under `key`.
pub(crate) fn strings(fields: &Fields, key: &str) -> Vec<String> {
    let list = fields.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// The string under `key`, or "".
pub(crate) fn text<'a>(fields: &'a Fields, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Copies `key` from `from` into `to`; absent there means removed here.
pub(crate) fn copy(to: &mut Fields, from: &Fields, key: &str) {
    match from.get(key) {
        Some(value) => to.insert(key.to_owned(), value.clone()),
        None => to.remove(key),
    };
}
