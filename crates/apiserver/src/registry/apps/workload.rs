//! What kinds with a pod template check and show alike.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::registry::{
    Column,
    check::At,
    core::pod_spec::{self, defaults},
    edit::ensure_object,
    print::{age, containers, count},
    selectors,
};

static NO_LABELS: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

/// Fills in the pod template.
pub(crate) fn default_template(obj: &mut Object) {
    defaults::template(ensure_object(ensure_object(&mut obj.0, "spec"), "template"));
}

/// A selector that is given and not empty, and a template it matches.
pub(crate) fn selector_and_template(spec: &At<'_>, kind: &str, errs: &mut ErrorList) {
    let (selector, template) = (spec.get("selector"), spec.get("template"));
    let empty = selectors::is_empty(&selector);
    if !selector.is_set() {
        errs.push(selector.required(""));
    } else {
        selectors::label_selector(&selector, errs);
        if empty {
            errs.push(selector.invalid(format!("empty selector is invalid for {kind}")));
        }
    }
    let labels = template.get("metadata").get("labels");
    let selected = selectors::matches(selector.value, labels.map().unwrap_or(&NO_LABELS));
    if !selector.is_set() || (!empty && !selected) {
        errs.push(labels.invalid("`selector` does not match template `labels`"));
    }
    pod_spec::validate_template(&template, errs);
}

/// The pods of a workload are always restarted and have no deadline.
pub(crate) fn always_running(spec: &At<'_>, kind: &str, errs: &mut ErrorList) {
    let pod = spec.get("template").get("spec");
    let policy = pod.get("restartPolicy");
    // What is no policy at all was reported with the template.
    if ["OnFailure", "Never"].contains(&policy.str()) {
        errs.push(policy.not_supported(&["Always"]));
    }
    let deadline = pod.get("activeDeadlineSeconds");
    if deadline.is_set() && policy.str() == "Always" {
        errs.push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

/// A whole number or a percentage, not negative.
pub(crate) fn int_or_percent(at: &At<'_>, errs: &mut ErrorList) {
    match at.value {
        Value::String(text) => at.each_of(names::is_valid_percent(text), errs),
        _ => at.non_negative(errs),
    }
}

/// A percentage of at most 100.
pub(crate) fn at_most_all(at: &At<'_>, errs: &mut ErrorList) {
    let percent = at.str().strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errs.push(at.invalid("must not be greater than 100%"));
    }
}

/// Whether the value is 0 or 0%.
pub(crate) fn is_nothing(at: &At<'_>) -> bool {
    at.int().unwrap_or(0) == 0 && matches!(at.str(), "" | "0%")
}

/// Counts in a status are not negative.
pub(crate) fn status_counts(status: &At<'_>, fields: &[&str], errs: &mut ErrorList) {
    for field in fields {
        status.get(field).non_negative(errs);
    }
}

/// The first count may not exceed the second.
pub(crate) fn no_more_than(status: &At<'_>, field: &str, bound: &str, errs: &mut ErrorList) {
    let (count, most) = (status.get(field), status.get(bound).int().unwrap_or(0));
    if count.int().unwrap_or(0) > most {
        let name = if bound == "replicas" { "status.replicas" } else { bound };
        errs.push(count.invalid(format!("cannot be greater than {name}")));
    }
}

/// The selector may not change.
pub(crate) fn fixed_selector(obj: &Object, old: &Object, errs: &mut ErrorList) {
    let (new, was) = (At::field(obj, "spec").get("selector"), At::field(old, "spec").get("selector"));
    new.immutable(&was, errs);
}

/// Warnings for the template's pods.
pub(crate) fn warnings(obj: &Object) -> Vec<String> {
    pod_spec::warnings::collect(&At::field(obj, "spec").get("template").get("spec"))
}

/// The columns a workload has of its own, and those that all have.
pub(crate) fn columns(mut own: Vec<Column>) -> Vec<Column> {
    own.extend([
        Column::new("Age", "string", "Time since creation."),
        Column::wide("Containers", "string", "Names of the template's containers."),
        Column::wide("Images", "string", "Images of the template's containers."),
        Column::wide("Selector", "string", "Labels of the pods that belong to it."),
    ]);
    own
}

/// The cells of [`columns`]: `own` are those between the name and the age.
pub(crate) fn cells(obj: &Object, now: Timestamp, own: Vec<Value>) -> Vec<Value> {
    let spec = At::field(obj, "spec");
    let [names, images] = containers(&spec.get("template").get("spec"));
    let mut cells = vec![Value::from(obj.name())];
    cells.extend(own);
    cells.extend([age(obj, now), names, images, selectors::format(spec.get("selector").value).into()]);
    cells
}

/// Ready pods of wanted pods, as `2/3`.
pub(crate) fn ready_of_wanted(obj: &Object) -> Value {
    let number = |part: &str, field: &str| At::field(obj, part).get(field).int().unwrap_or(0);
    format!("{}/{}", number("status", "readyReplicas"), number("spec", "replicas")).into()
}

/// Pods wanted, there and ready.
pub(crate) fn replicas(obj: &Object) -> Vec<Value> {
    let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
    vec![count(&spec.get("replicas")), count(&status.get("replicas")), count(&status.get("readyReplicas"))]
}

/// "Invalid value" on a whole strategy, shown as upstream shows its inner form.
pub(crate) fn internal_not_supported(at: &At<'_>, supported: &[&str]) -> Error {
    Error::not_supported(&at.path, crate::registry::check::internal_form(at.value), supported)
}
