//! Taints: NoSchedule and NoExecute refuse, PreferNoSchedule counts against a node.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::cache::{NodeInfo, PodInfo, Snapshot};
use crate::framework::{ClusterEvent, Filter, Plugin, Refusal, Score, State, scale_to_max};

pub(super) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded | ClusterEvent::NodeUpdated | ClusterEvent::PodUpdated)
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn as_score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

/// Whether a toleration covers a taint (API doc of Toleration).
pub(super) fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: &str) -> bool {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let (own_key, own_effect, operator) = (given(&toleration.key), given(&toleration.effect), given(&toleration.operator));
    if !(own_effect.is_empty() || own_effect == effect) || !(own_key.is_empty() || own_key == key) {
        return false;
    }
    match operator.as_str() {
        "Exists" => true,
        "" | "Equal" => given(&toleration.value) == value,
        _ => false,
    }
}

fn tolerated(taint: &Taint, pod: &PodInfo) -> bool {
    let value = taint.value.as_deref().unwrap_or_default();
    pod.tolerations().iter().any(|toleration| tolerates(toleration, &taint.key, value, &taint.effect))
}

impl Filter for TaintToleration {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        let refusing = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerated(taint, pod);
        match node.taints().iter().find(refusing) {
            None => Ok(()),
            Some(_) => Err(Refusal::unresolvable(self.name(), "node(s) had untolerated taint(s)")),
        }
    }
}

impl Score for TaintToleration {
    fn score(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let against = |taint: &&Taint| taint.effect == "PreferNoSchedule" && !tolerated(taint, pod);
        i64::try_from(node.taints().iter().filter(against).count()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale_to_max(scores, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;

    #[test]
    fn a_taint_refuses_whoever_does_not_tolerate_it() {
        let tainted = node("n", json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}), json!({}));
        assert!(TaintToleration.filter(&pod_info(json!({})), &None, &tainted).is_err());
        for toleration in [
            json!({"operator": "Exists"}),
            json!({"key": "k", "value": "v"}),
            json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}),
        ] {
            assert!(TaintToleration.filter(&pod_info(json!({"tolerations": [toleration]})), &None, &tainted).is_ok());
        }
        for toleration in [json!({"key": "k", "value": "w"}), json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})] {
            assert!(TaintToleration.filter(&pod_info(json!({"tolerations": [toleration]})), &None, &tainted).is_err());
        }
    }

    #[test]
    fn preferring_taints_lower_the_score() {
        let mut scores = [0, 2, 1];
        TaintToleration.normalize(&mut scores);
        assert_eq!(scores, [100, 0, 50]);
    }
}
