//! What events must satisfy. Whatever group a request speaks, errors name fields as the core group spells them.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use serde_json::Value;

use crate::registry::check::{At, internal_form};

/// Bytes that an action, a reason and the name of a reporting instance may have.
const MOST: usize = 128;
const MOST_IN_NOTE: usize = 1024;

/// Fields of an event that do not change through `events.k8s.io`, in the order of upstream's complaints.
const FIXED: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// A field by the core group's name, with the path that errors show.
fn at<'a>(event: &'a Object, name: &str) -> At<'a> {
    let shown = if name == "reportingComponent" { "reportingController" } else { name };
    At::field(event, name).under(Path::new(shown))
}

/// An "Invalid value" that does not say which.
fn unnamed(at: &At<'_>, detail: impl Into<String>) -> Error {
    Error::invalid(&at.path, "", detail.into())
}

/// What holds for any event. Upstream: `legacyValidateEvent`.
pub(super) fn any(event: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let about = at(event, "involvedObject").get("namespace");
    // An event with a time of its own is of the newer kind.
    let newer = at(event, "eventTime").is_set();
    let strays = match (about.str(), event.namespace()) {
        ("", "default") => false,
        ("", "kube-system") => !newer,
        ("", _) => true,
        (about, own) => !newer && about != own,
    };
    if strays {
        errs.push(Error::invalid(&about.path, about.str(), "does not match event.namespace"));
    }
    if newer {
        reported(event, &mut errs);
    }
    let namespace = event.namespace();
    errs.extend(names::is_dns1123_subdomain(namespace).into_iter().map(|text| Error::invalid(&Path::new("namespace"), namespace, text)));
    errs
}

fn reported(event: &Object, errs: &mut ErrorList) {
    let controller = at(event, "reportingComponent");
    controller.require_str("", errs);
    controller.name(names::is_qualified_name, errs);
    for name in ["reportingInstance", "action", "reason"] {
        let text = at(event, name);
        text.require_str("", errs);
        short(&text, MOST, errs);
    }
    short(&at(event, "message"), MOST_IN_NOTE, errs);
}

fn short(text: &At<'_>, most: usize, errs: &mut ErrorList) {
    if text.str().len() > most {
        errs.push(unnamed(text, format!("can have at most {most} characters")));
    }
}

/// What `events.k8s.io` asks of a new event besides.
pub(super) fn new(event: &Object) -> ErrorList {
    let mut errs = series(event);
    let (time, kind) = (at(event, "eventTime"), at(event, "type"));
    if !time.is_set() {
        errs.push(time.required(""));
    }
    if !["Normal", "Warning"].contains(&kind.str()) {
        errs.push(unnamed(&kind, format!("has invalid value: {}", kind.str())));
    }
    let source = at(event, "source");
    let given = [
        ("firstTimestamp", at(event, "firstTimestamp").is_set()),
        ("lastTimestamp", at(event, "lastTimestamp").is_set()),
        ("count", at(event, "count").int().is_some_and(|count| count != 0)),
        ("source", ["component", "host"].iter().any(|part| !source.get(part).is_empty())),
    ];
    errs.extend(given.iter().filter(|(_, given)| *given).map(|(name, _)| unnamed(&at(event, name), "needs to be unset")));
    errs
}

/// What `events.k8s.io` asks of a change: only the series and metadata may be another.
pub(super) fn change(event: &Object, old: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    if at(event, "series").value != at(old, "series").value {
        errs.extend(series(event));
    }
    for name in FIXED {
        let (new, was) = (at(event, name), at(old, name));
        if filled(new.value) != filled(was.value) {
            let shown = if new.is_set() { internal_form(new.value) } else { "".into() };
            errs.push(Error::invalid(&new.path, shown, "field is immutable"));
        }
    }
    errs
}

/// A value as Go compares it: what is empty might as well be absent.
fn filled(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !crate::registry::edit::is_zero(value))
}

fn series(event: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let series = at(event, "series");
    if !series.is_set() {
        return errs;
    }
    let field = |name: &str| series.get(name).under(Path::new(format!("series.{name}")));
    if field("count").int().unwrap_or(0) < 2 {
        errs.push(unnamed(&field("count"), "should be at least 2"));
    }
    if !field("lastObservedTime").is_set() {
        errs.push(field("lastObservedTime").required(""));
    }
    errs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(mut value: Value) -> Object {
        value["metadata"] = json!({"name": "e", "namespace": "n"});
        Object::from_value(value).unwrap()
    }

    fn texts(errs: ErrorList) -> Vec<String> {
        errs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_event_lives_where_its_object_does() {
        let about = |namespace: &str| json!({"involvedObject": {"kind": "Node", "namespace": namespace}});
        assert_eq!(texts(any(&event(about("n")))), Vec::<String>::new());
        for (namespace, shown) in [("other", r#""other""#), ("", r#""""#)] {
            let text = format!("involvedObject.namespace: Invalid value: {shown}: does not match event.namespace");
            assert_eq!(texts(any(&event(about(namespace)))), [text]);
        }
        let mut clusterwide = event(about(""));
        clusterwide.set_namespace("default");
        assert!(any(&clusterwide).is_empty());
    }

    #[test]
    fn an_event_with_a_time_says_who_did_what_and_why() {
        let mut value = json!({"eventTime": "2026-01-01T00:00:00Z", "involvedObject": {"namespace": "n"}});
        let required: Vec<String> = texts(any(&event(value.clone()))).into_iter().filter(|text| text.contains("Required")).collect();
        let fields = ["reportingController", "reportingInstance", "action", "reason"];
        assert_eq!(required, fields.map(|field| format!("{field}: Required value")));
        for (field, text) in [("reportingComponent", "a.io/c"), ("reportingInstance", "i"), ("action", "Act"), ("reason", "Why")] {
            value[field] = text.into();
        }
        assert!(any(&event(value.clone())).is_empty());
        value["message"] = "m".repeat(1025).into();
        assert_eq!(texts(any(&event(value))), [r#"message: Invalid value: "": can have at most 1024 characters"#]);
    }

    #[test]
    fn what_the_older_form_says_in_fields_of_its_own_is_unset_in_the_newer_one() {
        let value = json!({"type": "Odd", "count": 1, "source": {"component": "c"}, "lastTimestamp": "2026-01-01T00:00:00Z",
            "series": {"count": 1}});
        let expected = [
            r#"series.count: Invalid value: "": should be at least 2"#,
            "series.lastObservedTime: Required value",
            "eventTime: Required value",
            r#"type: Invalid value: "": has invalid value: Odd"#,
            r#"lastTimestamp: Invalid value: "": needs to be unset"#,
            r#"count: Invalid value: "": needs to be unset"#,
            r#"source: Invalid value: "": needs to be unset"#,
        ];
        assert_eq!(texts(new(&event(value))), expected);
    }

    #[test]
    fn only_the_series_of_an_event_goes_on() {
        let old = event(json!({"reason": "Why", "action": "Act", "source": {}}));
        let series = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00Z"});
        assert!(change(&event(json!({"reason": "Why", "action": "Act", "series": series})), &old).is_empty());
        let text = r#"action: Invalid value: "": field is immutable"#;
        assert_eq!(texts(change(&event(json!({"reason": "Why"})), &old)), [text]);
    }
}
