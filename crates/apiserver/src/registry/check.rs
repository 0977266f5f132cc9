//! Reading an object with the path of every value at hand, and the checks that validation shares.
//!
//! [`At`] is a value together with its field path: walking to a child extends both, so an error always names the
//! field it is about. A missing child is JSON null, like Go's nil; readers return Go's zero values.

use std::collections::BTreeSet;

use apimachinery::Object;
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// A value and the path that leads to it.
#[derive(Clone)]
pub(crate) struct At<'a> {
    pub(crate) path: Path,
    pub(crate) value: &'a Value,
}

impl<'a> At<'a> {
    /// A value at a path.
    pub(crate) fn new(path: Path, value: &'a Value) -> Self {
        At { path, value }
    }

    /// A top-level field of an object.
    pub(crate) fn field(object: &'a Object, name: &str) -> Self {
        At { path: Path::new(name), value: object.0.get(name).unwrap_or(&NULL) }
    }

    /// The member `name` (null when absent).
    pub(crate) fn get(&self, name: &str) -> At<'a> {
        At { path: self.path.child(name), value: self.value.get(name).unwrap_or(&NULL) }
    }

    /// The entry `key` of a map, whose path is written `path[key]`.
    pub(crate) fn key(&self, key: &str) -> At<'a> {
        At { path: self.path.key(key), value: self.value.get(key).unwrap_or(&NULL) }
    }

    /// The same value under another path, where upstream reports a field under a parent or sibling.
    pub(crate) fn under(&self, path: Path) -> At<'a> {
        At { path, value: self.value }
    }

    /// Elements of a list with their indexed paths.
    pub(crate) fn items(&self) -> Vec<At<'a>> {
        let list = self.value.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(|(index, value)| At { path: self.path.index(index), value }).collect()
    }

    /// Entries of a map, sorted by key, with paths written `path[key]`.
    pub(crate) fn entries(&self) -> Vec<(&'a str, At<'a>)> {
        self.map().into_iter().flatten().map(|(k, value)| (k.as_str(), At { path: self.path.key(k), value })).collect()
    }

    /// The value as a map.
    pub(crate) fn map(&self) -> Option<&'a Map<String, Value>> {
        self.value.as_object()
    }

    /// True unless the value is absent or null.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Number of elements of a list or map; 0 otherwise.
    pub(crate) fn size(&self) -> usize {
        match self.value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    /// True for absent, null, `""`, `[]` and `{}`.
    pub(crate) fn is_empty(&self) -> bool {
        self.size() == 0 && self.str().is_empty()
    }

    /// The string, or `""`.
    pub(crate) fn str(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer, if it is one.
    pub(crate) fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// True only for JSON true.
    pub(crate) fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// The strings of a list.
    pub(crate) fn strs(&self) -> Vec<&'a str> {
        self.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The quantity, if it parses.
    pub(crate) fn quantity(&self) -> Option<Quantity> {
        match self.value {
            Value::String(text) => Quantity::parse(text).ok(),
            Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// "Required value".
    pub(crate) fn required(&self, detail: &str) -> Error {
        Error::required(&self.path, detail)
    }

    /// "Invalid value: …: detail".
    pub(crate) fn invalid(&self, detail: impl Into<String>) -> Error {
        Error::invalid(&self.path, self.value.clone(), detail.into())
    }

    /// "Forbidden: detail".
    pub(crate) fn forbidden(&self, detail: impl Into<String>) -> Error {
        Error::forbidden(&self.path, detail.into())
    }

    /// "Unsupported value: …: supported values: …" in the order given.
    pub(crate) fn not_supported(&self, supported: &[&str]) -> Error {
        Error::not_supported(&self.path, self.value.clone(), supported)
    }

    /// "Duplicate value: …".
    pub(crate) fn duplicate(&self) -> Error {
        Error::duplicate(&self.path, self.value.clone())
    }
}

/// Checks that push what they find. Each names the upstream rule in its message.
impl At<'_> {
    /// An integer, when set, that is not negative.
    pub(crate) fn non_negative(&self, errs: &mut ErrorList) {
        if self.int().is_some_and(|n| n < 0) {
            errs.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// A port number from 1 to 65535; absent counts as 0.
    pub(crate) fn port_number(&self, errs: &mut ErrorList) {
        let port = self.int().unwrap_or(0);
        if !(1..=65535).contains(&port) {
            errs.push(Error::invalid(&self.path, Value::from(port), "must be between 1 and 65535, inclusive"));
        }
    }

    /// A port given as number or as a port name.
    pub(crate) fn port_or_name(&self, errs: &mut ErrorList) {
        match self.value {
            Value::String(name) => self.each_of(names::is_valid_port_name(name), errs),
            _ => self.port_number(errs),
        }
    }

    /// One of a closed set of strings. Absent and empty count as wrong.
    pub(crate) fn one_of(&self, supported: &[&str], errs: &mut ErrorList) {
        if !supported.contains(&self.str()) {
            let value = if self.is_set() { self.value.clone() } else { Value::from("") };
            errs.push(Error::not_supported(&self.path, value, supported));
        }
    }

    /// One of a closed set of strings, when not empty.
    pub(crate) fn one_of_if_set(&self, supported: &[&str], errs: &mut ErrorList) {
        if !self.is_empty() {
            self.one_of(supported, errs);
        }
    }

    /// A string that is not empty.
    pub(crate) fn require_str(&self, detail: &str, errs: &mut ErrorList) -> bool {
        if self.str().is_empty() {
            errs.push(self.required(detail));
            return false;
        }
        true
    }

    /// One "Invalid value" for each message.
    pub(crate) fn each_of(&self, messages: Vec<String>, errs: &mut ErrorList) {
        let value = if self.is_set() { self.value.clone() } else { Value::from("") };
        errs.extend(messages.into_iter().map(|m| Error::invalid(&self.path, value.clone(), m)));
    }

    /// The string passes a name check (`apimachinery::names`).
    pub(crate) fn name(&self, check: fn(&str) -> Vec<String>, errs: &mut ErrorList) {
        self.each_of(check(self.str()), errs);
    }

    /// Required, and if given passes the name check.
    pub(crate) fn required_name(&self, check: fn(&str) -> Vec<String>, errs: &mut ErrorList) {
        if self.require_str("", errs) {
            self.name(check, errs);
        }
    }

    /// Passes the name check if not empty.
    pub(crate) fn name_if_set(&self, check: fn(&str) -> Vec<String>, errs: &mut ErrorList) {
        if !self.is_empty() {
            self.name(check, errs);
        }
    }

    /// The quantity, when it parses, is not negative.
    pub(crate) fn non_negative_quantity(&self, errs: &mut ErrorList) {
        if self.quantity().is_some_and(|q| q.sign() < 0) {
            errs.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// The value equals the old one; else "field is immutable".
    pub(crate) fn immutable(&self, old: &At<'_>, errs: &mut ErrorList) {
        if self.value != old.value {
            errs.push(self.invalid("field is immutable"));
        }
    }
}

/// Labels: keys are qualified names, values are label values.
pub(crate) fn labels(at: &At<'_>, errs: &mut ErrorList) {
    for (key, entry) in at.entries() {
        qualified_key(at, key, errs);
        let text = entry.str();
        for message in names::is_valid_label_value(text) {
            errs.push(Error::invalid(&at.path, Value::from(text), message));
        }
    }
}

/// Annotations: keys are qualified names in any case; all of them together fit in 256 KiB.
pub(crate) fn annotations(at: &At<'_>, errs: &mut ErrorList) {
    const MAX: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in at.entries() {
        for message in names::is_qualified_name(&key.to_lowercase()) {
            errs.push(Error::invalid(&at.path, Value::from(key), message));
        }
        size += key.len() + value.str().len();
    }
    if size > MAX {
        errs.push(Error::too_long(&at.path, "", MAX));
    }
}

/// A qualified name used as a map key; the error is reported on the map.
pub(crate) fn qualified_key(at: &At<'_>, key: &str, errs: &mut ErrorList) {
    for message in names::is_qualified_name(key) {
        errs.push(Error::invalid(&at.path, Value::from(key), message));
    }
}

/// Reports each list element whose `field` repeats, at that field.
pub(crate) fn unique_by(list: &At<'_>, field: &str, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for item in list.items() {
        let name = item.get(field);
        if !name.is_empty() && !seen.insert(name.str()) {
            errs.push(name.duplicate());
        }
    }
}

/// A JSON object as upstream prints its internal Go struct: member names start with a capital letter.
pub(crate) fn internal_form(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let capital = |key: &str| {
                let mut letters = key.chars();
                letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
            };
            map.iter().map(|(k, v)| (capital(k), internal_form(v))).collect()
        }
        Value::Array(list) => list.iter().map(internal_form).collect(),
        other => other.clone(),
    }
}
