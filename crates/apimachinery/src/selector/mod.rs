//! Selectors over labels and fields, as query parameters and inside objects.

pub mod field;
pub mod label;
#[cfg(test)]
mod properties;

/// A set of named texts a selector looks at: the labels or selectable fields of one object.
pub trait Lookup {
    /// The text of `name`, if there is one.
    fn lookup(&self, name: &str) -> Option<&str>;
}

impl Lookup for std::collections::BTreeMap<String, String> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }
}

impl Lookup for serde_json::Map<String, serde_json::Value> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }
}

impl<L: Lookup> Lookup for Option<&L> {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.and_then(|inner| inner.lookup(name))
    }
}

impl<const N: usize> Lookup for [(&str, &str); N] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self[..].lookup(name)
    }
}

impl Lookup for [(&str, &str)] {
    fn lookup(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}
