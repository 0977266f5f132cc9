//! Conditions in a pod's status that the server itself writes.

use apimachinery::{Object, time::format_rfc3339_seconds};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::edit::{default_to, ensure_object};

/// Makes the condition true for this `(reason, message)`; whether that changed the pod. It keeps its time where it was true
/// before. Upstream: `UpdatePodCondition`.
pub(super) fn set(pod: &mut Object, kind: &str, (reason, message): (&str, &str), now: Timestamp) -> bool {
    let status = ensure_object(&mut pod.0, "status");
    default_to(status, "conditions", json!([]));
    let Some(Value::Array(conditions)) = status.get_mut("conditions") else { return false };
    let mut wanted = json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": format_rfc3339_seconds(now)});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            wanted[field] = text.into();
        }
    }
    let Some(current) = conditions.iter_mut().find(|condition| condition["type"] == kind) else {
        conditions.push(wanted);
        return true;
    };
    if current["status"] == "True" {
        wanted["lastTransitionTime"] = current["lastTransitionTime"].clone();
    }
    let changed = *current != wanted;
    *current = wanted;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_holds_keeps_its_time_and_changes_nothing() {
        let mut pod = Object::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        let at = |text: &str| text.parse().unwrap();
        assert!(set(&mut pod, "DisruptionTarget", ("Why", "because"), at("2026-01-01T00:00:00Z")));
        assert!(!set(&mut pod, "DisruptionTarget", ("Why", "because"), at("2026-01-01T00:01:00Z")));
        assert!(set(&mut pod, "DisruptionTarget", ("Other", "because"), at("2026-01-01T00:02:00Z")));
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!((&conditions[0]["lastTransitionTime"], &conditions[0]["reason"]), (&json!("2026-01-01T00:00:00Z"), &json!("Other")));
    }
}
