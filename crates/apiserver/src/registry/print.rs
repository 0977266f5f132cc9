//! Cells of the Table form that many kinds share.

use apimachinery::{Object, time};
use jiff::Timestamp;
use serde_json::Value;

use super::check::At;

/// The time since the object was created, as kubectl's AGE shows it.
pub(crate) fn age(obj: &Object, now: Timestamp) -> Value {
    Value::from(time::age(obj.creation_timestamp(), now))
}

/// The time since an RFC 3339 instant; `<unknown>` without one.
pub(crate) fn since(at: &At<'_>, now: Timestamp) -> String {
    time::age(time::parse_rfc3339(at.str()), now)
}

/// The text, or `<none>` for nothing.
pub(crate) fn or_none(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

/// The text, or `<unset>` for nothing.
pub(crate) fn or_unset(text: &str) -> Value {
    Value::from(if text.is_empty() { "<unset>" } else { text })
}

/// The integer of a field, 0 when absent.
pub(crate) fn count(at: &At<'_>) -> Value {
    Value::from(at.int().unwrap_or(0))
}

/// The names and the images of a pod spec's containers, joined by commas.
pub(crate) fn containers(spec: &At<'_>) -> [Value; 2] {
    let list = spec.get("containers").items();
    let join = |field| list.iter().map(|container| container.get(field).str()).collect::<Vec<_>>().join(",");
    [Value::from(join("name")), Value::from(join("image"))]
}

/// A map of labels as `a=b,c=d`, or `<none>`.
pub(crate) fn label_map(map: &At<'_>) -> Value {
    let pairs: Vec<String> = map.entries().iter().map(|(key, value)| format!("{key}={}", value.str())).collect();
    or_none(&pairs.join(","))
}

/// The first `max` texts joined by commas, and how many more there are.
pub(crate) fn shortened(texts: &[String], max: usize) -> String {
    match texts.len().checked_sub(max) {
        Some(more) if more > 0 => format!("{} + {more} more...", texts[..max].join(",")),
        _ => texts.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let texts: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(shortened(&texts, 3), "a,b,c + 1 more...");
        assert_eq!(shortened(&texts[..3], 3), "a,b,c");
    }
}
