//! The taints that follow from a node's conditions. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::condition;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// Which taint a condition of that status means.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Which label follows which, for readers of the older name.
const LABELS: [(&str, &str); 2] = [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

fn taint(key: &str, effect: &str, now: Timestamp) -> Taint {
    Taint { key: key.into(), effect: effect.into(), time_added: Some(Time(now)), value: None }
}

fn is_ours(taint: &Taint, effect: &str) -> bool {
    let key = taint.key.as_str();
    taint.effect == effect && (key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, ours)| *ours == key))
}

fn current(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The node's taints with the NoSchedule ones its conditions call for, if it has others.
pub(super) fn no_schedule(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let holds = |kind: &str, status: &str| condition(node, kind).is_some_and(|condition| condition.status == status);
    let mut wanted: Vec<&str> = BY_CONDITION.iter().filter(|(kind, status, _)| holds(kind, status)).map(|(_, _, key)| *key).collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push(UNSCHEDULABLE);
    }
    replaced(node, NO_SCHEDULE, &wanted, now)
}

/// The node's taints with the NoExecute one for `wanted` (and no other of ours), if it has others.
pub(super) fn no_execute(node: &Node, wanted: Option<&str>, now: Timestamp) -> Option<Vec<Taint>> {
    replaced(node, NO_EXECUTE, wanted.as_slice(), now)
}

/// Puts taints that are new after those that are there, as upstream does.
fn replaced(node: &Node, effect: &str, wanted: &[&str], now: Timestamp) -> Option<Vec<Taint>> {
    let current = current(node);
    let has = |key: &str| current.iter().any(|taint| taint.key == key && taint.effect == effect);
    let kept = current.iter().filter(|taint| !is_ours(taint, effect) || wanted.contains(&taint.key.as_str()));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    let new = wanted.iter().filter(|key| !has(key)).map(|key| taint(key, effect, now));
    let removed = taints.len() != current.len();
    let before = taints.len();
    taints.extend(new);
    (removed || taints.len() != before).then_some(taints)
}

/// Labels to set so that the older names say the same.
pub(super) fn labels(node: &Node) -> BTreeMap<String, String> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let differing = LABELS.iter().filter_map(|(primary, secondary)| {
        let value = labels.get(*primary)?;
        (labels.get(*secondary) != Some(value)).then(|| ((*secondary).to_owned(), value.clone()))
    });
    differing.collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::{NOT_READY, UNREACHABLE, labels, no_execute, no_schedule};

    fn node(conditions: &Value, spec: &Value) -> Node {
        serde_json::from_value(json!({"spec": spec, "status": {"conditions": conditions}})).unwrap()
    }

    fn keys(taints: Option<Vec<k8s_openapi::api::core::v1::Taint>>) -> Option<Vec<String>> {
        taints.map(|taints| taints.into_iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect())
    }

    #[test]
    fn conditions_become_taints_after_those_of_others() {
        let mine = json!({"taints": [{"key": "mine", "effect": "NoSchedule"}]});
        let pressed = json!([{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]);
        let taints = keys(no_schedule(&node(&pressed, &mine), Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(taints, ["mine:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule"]);
    }

    #[test]
    fn a_taint_whose_cause_is_over_goes_and_others_stay() {
        let spec = json!({"taints": [
            {"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"}, {"key": "mine", "effect": "NoSchedule"},
        ]});
        let ready = node(&json!([{"type": "Ready", "status": "True"}]), &spec);
        let taints = keys(no_schedule(&ready, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(taints, [format!("{NOT_READY}:NoExecute"), "mine:NoSchedule".into()]);
    }

    #[test]
    fn a_node_that_fell_silent_changes_its_eviction_taint() {
        let unready = node(&json!([]), &json!({"taints": [{"key": NOT_READY, "effect": "NoExecute"}]}));
        let swapped = keys(no_execute(&unready, Some(UNREACHABLE), Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(swapped, [format!("{UNREACHABLE}:NoExecute")]);
        assert_eq!(keys(no_execute(&unready, Some(NOT_READY), Timestamp::UNIX_EPOCH)), None);
        assert_eq!(keys(no_execute(&unready, None, Timestamp::UNIX_EPOCH)), Some(vec![]));
    }

    #[test]
    fn older_labels_follow_the_newer_ones() {
        let mut node = Node::default();
        node.metadata.labels = Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into());
        assert_eq!(labels(&node).into_iter().collect::<Vec<_>>(), [("beta.kubernetes.io/os".to_owned(), "linux".to_owned())]);
    }
}
