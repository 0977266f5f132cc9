//! Validation of label selectors and node selectors.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::{Map, Value};

use super::check::{At, labels};

const NEED_VALUES: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const NO_VALUES: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
const BAD_OPERATOR: &str = "not a valid selector operator";

/// A `metav1.LabelSelector`.
pub(crate) fn label_selector(selector: &At<'_>, errs: &mut ErrorList) {
    labels(&selector.get("matchLabels"), errs);
    for term in selector.get("matchExpressions").items() {
        label_requirement(&term, errs);
    }
}

fn label_requirement(term: &At<'_>, errs: &mut ErrorList) {
    let (operator, values) = (term.get("operator"), term.get("values"));
    match operator.str() {
        "In" | "NotIn" if values.size() == 0 => errs.push(values.required(NEED_VALUES)),
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if values.size() > 0 => errs.push(values.forbidden(NO_VALUES)),
        "Exists" | "DoesNotExist" => {}
        other => errs.push(Error::invalid(&operator.path, other, BAD_OPERATOR)),
    }
    term.get("key").name(names::is_qualified_name, errs);
    for value in values.items() {
        value.name(names::is_valid_label_value, errs);
    }
}

/// A `v1.NodeSelector`.
pub(crate) fn node_selector(selector: &At<'_>, errs: &mut ErrorList) {
    let terms = selector.get("nodeSelectorTerms");
    if terms.size() == 0 {
        errs.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        node_selector_term(&term, errs);
    }
}

/// One term of a `v1.NodeSelector`.
pub(crate) fn node_selector_term(term: &At<'_>, errs: &mut ErrorList) {
    for requirement in term.get("matchExpressions").items() {
        node_requirement(&requirement, errs);
    }
    for requirement in term.get("matchFields").items() {
        field_requirement(&requirement, errs);
    }
}

fn node_requirement(requirement: &At<'_>, errs: &mut ErrorList) {
    let (operator, values) = (requirement.get("operator"), requirement.get("values"));
    match operator.str() {
        "In" | "NotIn" if values.size() == 0 => errs.push(values.required(NEED_VALUES)),
        "Exists" | "DoesNotExist" if values.size() > 0 => errs.push(values.forbidden(NO_VALUES)),
        "Gt" | "Lt" if values.size() != 1 => {
            errs.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errs.push(Error::invalid(&operator.path, other, BAD_OPERATOR)),
    }
    requirement.get("key").name(names::is_qualified_name, errs);
}

fn field_requirement(requirement: &At<'_>, errs: &mut ErrorList) {
    let (operator, values, key) = (requirement.get("operator"), requirement.get("values"), requirement.get("key"));
    match operator.str() {
        "In" | "NotIn" if values.size() != 1 => {
            errs.push(values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
        }
        "In" | "NotIn" => {}
        other => errs.push(Error::invalid(&operator.path, other, BAD_OPERATOR)),
    }
    if key.str() != "metadata.name" {
        errs.push(key.invalid("not a valid field selector key"));
    }
    for value in values.items() {
        value.name(names::is_dns1123_subdomain, errs);
    }
}

/// Whether labels satisfy a `metav1.LabelSelector`; a selector that does not parse matches nothing.
pub(crate) fn matches(selector: &Value, labels: &Map<String, Value>) -> bool {
    let same = |(key, value): (&String, &Value)| labels.get(key) == Some(value);
    let pairs = selector.get("matchLabels").and_then(Value::as_object).is_none_or(|map| map.iter().all(same));
    let terms = selector.get("matchExpressions").and_then(Value::as_array);
    pairs && terms.is_none_or(|terms| terms.iter().all(|term| term_matches(term, labels)))
}

fn term_matches(term: &Value, labels: &Map<String, Value>) -> bool {
    let key = term.get("key").and_then(Value::as_str).unwrap_or_default();
    let listed = |value: &Value| term.get("values").and_then(Value::as_array).is_some_and(|v| v.contains(value));
    let found = labels.get(key);
    match term.get("operator").and_then(Value::as_str).unwrap_or_default() {
        "In" => found.is_some_and(listed),
        "NotIn" => !found.is_some_and(listed),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

/// Whether a selector selects everything because it says nothing.
pub(crate) fn is_empty(selector: &At<'_>) -> bool {
    selector.get("matchLabels").size() + selector.get("matchExpressions").size() == 0
}

/// The string form of a `metav1.LabelSelector`, as tables and scales show it; `<none>` when empty.
pub(crate) fn format(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = term.get("key").and_then(Value::as_str).unwrap_or_default();
        parts.push((key.to_owned(), format_term(key, term)));
    }
    parts.sort();
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

fn format_term(key: &str, term: &Value) -> String {
    let mut values: Vec<&str> = term.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    values.sort_unstable();
    match term.get("operator").and_then(Value::as_str).unwrap_or_default() {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "Exists" => key.to_owned(),
        _ => format!("!{key}"),
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::field::Path;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_operator_and_missing_values_are_named() {
        let value = json!({"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "X"}]});
        let mut errs = Vec::new();
        label_selector(&At::new(Path::new("s"), &value), &mut errs);
        let texts: Vec<String> = errs.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                r#"s.matchExpressions[1].operator: Invalid value: "X": not a valid selector operator"#,
            ]
        );
    }

    #[test]
    fn matching_and_printing_agree() {
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["x", "d"]}, {"key": "e", "operator": "DoesNotExist"}]});
        let labels = |value: Value| value.as_object().cloned().unwrap();
        assert!(matches(&selector, &labels(json!({"a": "b"}))));
        assert!(!matches(&selector, &labels(json!({"a": "b", "c": "d"}))));
        assert!(!matches(&selector, &labels(json!({"a": "b", "e": ""}))));
        assert_eq!(format(&selector), "a=b,c notin (d,x),!e");
        assert_eq!(format(&json!({})), "<none>");
    }
}
