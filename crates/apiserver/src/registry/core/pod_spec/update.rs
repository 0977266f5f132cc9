//! What of a pod may change after its creation.

use apimachinery::field::{Error, ErrorList};
use serde_json::{Map, Value};

use crate::registry::check::At;
use crate::registry::edit::{Fields, copy, each, text};

const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a changed pod spec against the old one (`ValidatePodUpdate`).
pub(crate) fn validate(new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    for list in ["containers", "initContainers"] {
        if new.get(list).size() != old.get(list).size() {
            errs.push(new.get(list).forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    active_deadline(new, old, errs);
    tolerations(&new.get("tolerations"), &old.get("tolerations"), errs);
    scheduling_gates(&new.get("schedulingGates"), &old.get("schedulingGates"), errs);
    let munged = with_free_fields_of(new.value, old.value);
    if munged != *old.value {
        errs.push(Error::forbidden(&new.path, format!("{ONLY}\n{}", difference(&munged, old.value))));
    }
}

fn active_deadline(new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    let (new, old) = (new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"));
    match (new.int(), old.int()) {
        (Some(n), Some(o)) if o < n => errs.push(new.invalid("must be less than or equal to previous value")),
        (None, Some(_)) => errs.push(new.invalid("must not update from a positive integer to nil value")),
        _ => {}
    }
}

/// Old tolerations stay, but for their seconds.
fn tolerations(new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    let bare = |at: &At<'_>| {
        let mut fields = at.map().cloned().unwrap_or_default();
        fields.remove("tolerationSeconds");
        fields
    };
    let kept: Vec<Map<String, Value>> = new.items().iter().map(bare).collect();
    if !old.items().iter().map(bare).all(|toleration| kept.contains(&toleration)) {
        errs.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

fn scheduling_gates(new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    let names: Vec<&str> = old.items().iter().map(|gate| gate.get("name").str()).collect();
    for gate in new.items() {
        let name = gate.get("name").str();
        if !names.contains(&name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errs.push(gate.forbidden(detail));
        }
    }
}

/// `new` with the fields that may change put back to their old values.
fn with_free_fields_of(new: &Value, old: &Value) -> Value {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new.clone() };
    let mut munged = new.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        copy(&mut munged, old, field);
    }
    for list in ["containers", "initContainers"] {
        let images: Vec<String> = list_images(old, list);
        for (container, image) in each(&mut munged, list).zip(images) {
            container.insert("image".into(), image.into());
        }
    }
    let was_negative = old.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|n| n < 0);
    if was_negative && new.get("terminationGracePeriodSeconds").and_then(Value::as_i64) == Some(1) {
        copy(&mut munged, old, "terminationGracePeriodSeconds");
    }
    if old.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        copy(&mut munged, old, "nodeSelector");
        copy(&mut munged, old, "affinity");
    }
    Value::Object(munged)
}

fn list_images(spec: &Fields, list: &str) -> Vec<String> {
    let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
    containers.filter_map(Value::as_object).map(|container| text(container, "image").to_owned()).collect()
}

/// One hunk of the pretty-printed lines in which two values differ.
fn difference(new: &Value, old: &Value) -> String {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let (new, old) = (pretty(new), pretty(old));
    let (new, old): (Vec<&str>, Vec<&str>) = (new.lines().collect(), old.lines().collect());
    let head = new.iter().zip(&old).take_while(|(a, b)| a == b).count();
    let most = new.len().min(old.len()) - head;
    let tail = new.iter().rev().zip(old.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut out = format!("@@ -{},{} +{},{} @@\n", head + 1, gone.len(), head + 1, come.len());
    let lines = gone.iter().map(|line| ('-', line)).chain(come.iter().map(|line| ('+', line)));
    for (sign, line) in lines {
        out.push(sign);
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// A container that ended for good may not run again (`ValidateContainerStateTransition`).
pub(crate) fn state_transitions(spec: &At<'_>, new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    let policy = spec.get("restartPolicy").str();
    if policy == "Always" {
        return;
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        let news = new.get(list);
        for was in old.get(list).items() {
            let ended = was.get("state").get("terminated");
            let failed = ended.get("exitCode").int().unwrap_or(0) != 0;
            if !ended.is_set() || (failed && policy == "OnFailure") || restartable_init(spec, was.get("name").str()) {
                continue;
            }
            let same = |now: &At<'_>| now.get("name").str() == was.get("name").str();
            for now in news.items().iter().filter(|now| same(now)) {
                if !now.get("state").get("terminated").is_set() {
                    errs.push(now.get("state").forbidden("may not be transitioned to non-terminated state"));
                }
            }
        }
    }
}

fn restartable_init(spec: &At<'_>, name: &str) -> bool {
    let same = |c: &At<'_>| c.get("name").str() == name && c.get("restartPolicy").str() == "Always";
    spec.get("initContainers").items().iter().any(same)
}
