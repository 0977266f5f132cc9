//! Equality of objects as far as it concerns more than the clock.

use serde_json::{Map, Value};

use crate::object::Object;

/// Whether two objects differ in nothing but when their managers last acted.
pub fn same_but_for_times(a: &Object, b: &Object) -> bool {
    type Same<'s> = &'s dyn Fn(&Value, &Value) -> bool;
    /// Whether two maps are the same but for one member, if `same` says so of that.
    fn maps(a: &Map<String, Value>, b: &Map<String, Value>, but: &str, same: Same<'_>) -> bool {
        let null = &Value::Null;
        let rest = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(but));
        let others = a.iter().filter(|(key, _)| *key != but).all(|(key, value)| b.get(key) == Some(value));
        others && rest(a) == rest(b) && same(a.get(but).unwrap_or(null), b.get(but).unwrap_or(null))
    }
    fn values(a: &Value, b: &Value, but: &str, same: Same<'_>) -> bool {
        if let (Value::Object(a), Value::Object(b)) = (a, b) { maps(a, b, but, same) } else { a == b }
    }
    let entry: Same<'_> = &|a, b| values(a, b, "time", &|_, _| true);
    let managers: Same<'_> = &|a, b| match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| entry(a, b)),
        _ => a == b,
    };
    maps(&a.0, &b.0, "metadata", &|a, b| values(a, b, "managedFields", managers))
}
