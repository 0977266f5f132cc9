//! Sets of field paths, and their form in `fieldsV1`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// A member of an object or map: `f:spec`.
    Field(String),
    /// An item of a list told apart by some of its fields, in order of their names: `k:{"name":"c"}`.
    Key(Vec<(String, Value)>),
    /// An item of a set: `v:"x"`.
    Value(Value),
    /// An item of a list by its place: `i:0`.
    Index(usize),
}

impl Element {
    /// As `fieldsV1` spells it.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let map: Map<String, Value> = fields.iter().cloned().collect();
                format!("k:{}", Value::Object(map))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads what [`Element::encode`] wrote; `None` for anything else.
    pub fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            "k" => {
                let map: Map<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(map.into_iter().collect()))
            }
            _ => None,
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // JSON values have no order of their own; their text serves.
        let rank = |element: &Self| match element {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        };
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ if rank(self) != rank(other) => rank(self).cmp(&rank(other)),
            _ => self.encode().cmp(&other.encode()),
        }
    }
}

/// A set of paths: which elements here are members, and what lies below each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Set>,
}

impl Set {
    /// No paths.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Adds a path; the empty one, the object itself, is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => _ = self.members.insert(last.clone()),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether the path is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// The paths below `element`.
    pub fn child(&self, element: &Element) -> Option<&Self> {
        self.children.get(element)
    }

    /// Members and children of this level, in order.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        let all: BTreeSet<&Element> = self.members.iter().chain(self.children.keys()).collect();
        all.into_iter()
    }

    /// The paths of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = out.children.get(element).map_or_else(|| child.clone(), |own| own.union(child));
            out.children.insert(element.clone(), merged);
        }
        out
    }

    /// The paths that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let both = self.children.iter().filter_map(|(element, child)| Some((element.clone(), child.intersection(other.children.get(element)?))));
        Self { members, children: both.filter(|(_, child)| !child.is_empty()).collect() }
    }

    /// The paths that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = self.children.iter().map(|(element, child)| {
            (element.clone(), other.children.get(element).map_or_else(|| child.clone(), |theirs| child.difference(theirs)))
        });
        Self { members, children: rest.filter(|(_, child)| !child.is_empty()).collect() }
    }

    /// The paths that are neither in `other` nor below one that is.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = self.children.iter().filter(|(element, _)| !other.members.contains(element)).map(|(element, child)| {
            (element.clone(), other.children.get(element).map_or_else(|| child.clone(), |theirs| child.recursive_difference(theirs)))
        });
        Self { members, children: rest.filter(|(_, child)| !child.is_empty()).collect() }
    }

    /// Every member as a whole path, in order.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for element in self.elements() {
            prefix.push(element.clone());
            if self.members.contains(element) {
                out.push(prefix.clone());
            }
            if let Some(child) = self.children.get(element) {
                child.collect(prefix, out);
            }
            prefix.pop();
        }
    }

    /// As `fieldsV1` holds it.
    pub fn to_fields(&self) -> Value {
        let mut out = Map::new();
        for element in self.elements() {
            let mut inner = match self.children.get(element).filter(|child| !child.is_empty()).map(Self::to_fields) {
                Some(Value::Object(inner)) => inner,
                _ => Map::new(),
            };
            if !inner.is_empty() && self.members.contains(element) {
                inner.insert(".".into(), Value::Object(Map::new()));
            }
            if !inner.is_empty() || self.members.contains(element) {
                out.insert(element.encode(), Value::Object(inner));
            }
        }
        Value::Object(out)
    }

    /// Reads `fieldsV1`; `None` where a key is none.
    pub fn from_fields(fields: &Value) -> Option<Self> {
        let mut out = Self::new();
        for (key, below) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let element = Element::decode(key)?;
            let below_map = below.as_object()?;
            if below_map.is_empty() || below_map.contains_key(".") {
                out.members.insert(element.clone());
            }
            let child = Self::from_fields(below)?;
            if !child.is_empty() {
                out.children.insert(element, child);
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_read_back_as_they_were_written() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:set": {"v:\"x\"": {}}});
        assert_eq!(Set::from_fields(&fields).unwrap().to_fields(), fields);
        assert!(Set::from_fields(&json!({"x:y": {}})).is_none());
    }

    #[test]
    fn a_difference_leaves_no_empty_branches() {
        let set = |fields: Value| Set::from_fields(&fields).unwrap();
        let a = set(json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}));
        assert_eq!(a.difference(&set(json!({"f:a": {"f:b": {}, "f:c": {}}}))), set(json!({"f:d": {}})));
        assert_eq!(a.intersection(&set(json!({"f:a": {"f:c": {}}, "f:e": {}}))), set(json!({"f:a": {"f:c": {}}})));
        assert_eq!(a.recursive_difference(&set(json!({"f:a": {}}))), set(json!({"f:d": {}})));
    }
}
