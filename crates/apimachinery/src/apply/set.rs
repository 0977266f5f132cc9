//! Sets of fields, as `managedFields` keeps them (`structured-merge-diff/fieldpath`).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::go;

/// One step of a path into an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field or map key.
    Field(String),
    /// The list item with these keys, as a JSON object with sorted members.
    Key(String),
    /// The item of a set, as JSON.
    Value(String),
    /// The list item at this place.
    Index(i64),
}

/// A set of paths. A path can be in the set without those below it, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<PathElement, Entry>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    member: bool,
    below: FieldSet,
}

impl PathElement {
    /// Reads a member name of `fieldsV1`: `f:name`, `k:{…}`, `v:…`, `i:0`.
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.into())),
            "k" => canonical(rest).filter(|key| key.starts_with('{')).map(Self::Key),
            "v" => canonical(rest).map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

fn canonical(json: &str) -> Option<String> {
    serde_json::from_str::<Value>(json).ok().map(|value| value.to_string())
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(key) => {
                let fields: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", go::json(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path as error messages print it: `.spec.containers[name="c"].image`.
pub(super) fn print(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}

impl FieldSet {
    /// The set of these paths, each of field names joined with dots.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.split('.').map(|name| PathElement::Field(name.into())));
        }
        set
    }

    /// Adds a path. The empty path is never in a set.
    pub fn insert(&mut self, path: impl IntoIterator<Item = PathElement>) {
        let mut path = path.into_iter().peekable();
        let mut set = self;
        while let Some(element) = path.next() {
            let entry = set.0.entry(element).or_default();
            entry.member |= path.peek().is_none();
            set = &mut entry.below;
        }
    }

    /// Puts a set below an element that is not in this one yet, and the element itself if it is a `member`.
    pub(super) fn attach(&mut self, element: PathElement, member: bool, below: Self) {
        if member || !below.is_empty() {
            self.0.insert(element, Entry { member, below });
        }
    }

    /// Whether the set has no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the path of one element is in the set.
    pub(super) fn has(&self, element: &PathElement) -> bool {
        self.0.get(element).is_some_and(|entry| entry.member)
    }

    /// What is in the set below a path of one element.
    pub(super) fn below(&self, element: &PathElement) -> Option<&Self> {
        self.0.get(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// All paths, in order.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for (element, entry) in &self.0 {
            prefix.push(element.clone());
            if entry.member {
                out.push(prefix.clone());
            }
            entry.below.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Paths in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }

    fn add(&mut self, other: &Self) {
        for (element, theirs) in &other.0 {
            let ours = self.0.entry(element.clone()).or_default();
            ours.member |= theirs.member;
            ours.below.add(&theirs.below);
        }
    }

    /// Paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filter(other, |member, entry| member && entry.member, |below, entry| below.intersection(&entry.below), false)
    }

    /// Paths in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filter(other, |member, entry| member && !entry.member, |below, entry| below.difference(&entry.below), true)
    }

    /// Paths in this set that are neither in the other nor below a path there.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let below = |below: &Self, entry: &Entry| {
            if entry.member { Self::default() } else { below.recursive_difference(&entry.below) }
        };
        self.filter(other, |member, entry| member && !entry.member, below, true)
    }

    /// Only what is at or below a path of `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        self.difference(&self.recursive_difference(other))
    }

    fn filter(&self, other: &Self, member: impl Fn(bool, &Entry) -> bool, below: impl Fn(&Self, &Entry) -> Self, alone: bool) -> Self {
        let mut out = BTreeMap::new();
        for (element, ours) in &self.0 {
            let kept = match other.0.get(element) {
                Some(theirs) => Entry { member: member(ours.member, theirs), below: below(&ours.below, theirs) },
                None if alone => ours.clone(),
                None => continue,
            };
            if kept.member || !kept.below.is_empty() {
                out.insert(element.clone(), kept);
            }
        }
        Self(out)
    }

    /// The same with entries changed from the top down; used to make named fields members.
    pub(super) fn map_entries(&self, named: &mut dyn FnMut(&PathElement, &Self) -> (bool, Self)) -> Self {
        let entries = self.0.iter().map(|(element, entry)| {
            let (member, below) = named(element, &entry.below);
            (element.clone(), Entry { member: entry.member || member, below })
        });
        Self(entries.collect())
    }

    /// The set in the form of `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let fields = self.0.iter().map(|(element, entry)| {
            let mut below = entry.below.to_value();
            if let Value::Object(fields) = &mut below
                && entry.member
                && !fields.is_empty()
            {
                fields.insert(".".into(), Value::Object(Map::new()));
            }
            (element.encode(), below)
        });
        Value::Object(fields.collect())
    }

    /// Reads `fieldsV1`; `None` if it is malformed.
    pub fn from_value(value: &Value) -> Option<Self> {
        let mut out = BTreeMap::new();
        for (name, value) in value.as_object()? {
            if name == "." {
                continue;
            }
            let fields = value.as_object()?;
            let member = fields.is_empty() || fields.contains_key(".");
            out.insert(PathElement::parse(name)?, Entry { member, below: Self::from_value(value)? });
        }
        Some(Self(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_value(&value).unwrap()
    }

    #[test]
    fn round_trips_through_fields_v1() {
        let value = json!({"f:spec": {"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:set": {"v:\"a\"": {}}}});
        assert_eq!(set(value.clone()).to_value(), value);
    }

    #[test]
    fn malformed_sets_are_refused() {
        for bad in [json!({"x:a": {}}), json!({"k:[1]": {}}), json!({"f:a": 1}), json!([])] {
            assert!(FieldSet::from_value(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn differences_keep_what_is_below_unless_recursive() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        assert_eq!(all.difference(&set(json!({"f:a": {}}))), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(all.recursive_difference(&set(json!({"f:a": {}}))), set(json!({"f:c": {}})));
        assert_eq!(all.within(&FieldSet::of(["a"])), set(json!({"f:a": {".": {}, "f:b": {}}})));
        assert_eq!(all.intersection(&set(json!({"f:a": {"f:b": {}}}))), set(json!({"f:a": {"f:b": {}}})));
    }

    #[test]
    fn paths_print_like_upstream() {
        let path = [
            PathElement::Field("spec".into()),
            PathElement::Key(r#"{"port":80,"protocol":"TCP"}"#.into()),
            PathElement::Value("\"x\"".into()),
            PathElement::Index(3),
        ];
        assert_eq!(print(&path), r#".spec[port=80,protocol="TCP"][="x"][3]"#);
    }
}
