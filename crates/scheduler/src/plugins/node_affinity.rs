//! `nodeSelector` and node affinity: required terms refuse, preferred terms score.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use crate::cache::{NodeInfo, PodInfo, Snapshot};
use crate::framework::{ClusterEvent, Filter, Plugin, Refusal, Score, State, scale_to_max};

pub(super) struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
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

impl Filter for NodeAffinity {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        let wanted = pod.spec().node_selector.iter().flatten();
        let selected = wanted.into_iter().all(|(key, value)| node.label(key) == Some(value));
        let required = pod.node_affinity().and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        if selected && required.is_none_or(|selector| matches_selector(selector, node)) {
            return Ok(());
        }
        Err(Refusal::unresolvable(self.name(), "node(s) didn't match Pod's node affinity/selector"))
    }
}

impl Score for NodeAffinity {
    fn skip(&self, pod: &PodInfo) -> bool {
        pod.node_affinity().is_none_or(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.is_none())
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let preferred = pod.node_affinity().and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
        let terms = preferred.into_iter().flatten();
        terms.filter(|term| matches_term(&term.preference, node)).map(|term| i64::from(term.weight)).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale_to_max(scores, false);
    }
}

fn matches_selector(selector: &NodeSelector, node: &NodeInfo) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, node))
}

/// A term without requirements matches nothing (API doc of NodeSelectorTerm).
fn matches_term(term: &NodeSelectorTerm, node: &NodeInfo) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then_some(node.name.as_str());
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|wanted| matches_requirement(wanted, node.label(&wanted.key).map(String::as_str)))
        && fields.iter().all(|wanted| matches_requirement(wanted, field(&wanted.key)))
}

fn matches_requirement(wanted: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = |found: &str| values.iter().any(|value| value == found);
    let compare = |order: fn(&i64, &i64) -> bool| {
        let (found, bound) = (found.and_then(|text| text.parse().ok()), values.first().and_then(|text| text.parse().ok()));
        found.zip(bound).is_some_and(|(found, bound)| order(&found, &bound))
    };
    match wanted.operator.as_str() {
        "In" => found.is_some_and(listed),
        "NotIn" => !found.is_some_and(listed),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{labelled_node, pod_info};
    use serde_json::json;

    fn requires(operator: &str, values: serde_json::Value) -> bool {
        let terms = json!([{"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}]);
        let pod = pod_info(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}),
        );
        NodeAffinity.filter(&pod, &None, &labelled_node("n", json!({"size": "5"}))).is_ok()
    }

    #[test]
    fn each_operator_means_what_the_api_says() {
        assert!(requires("In", json!(["5"])) && !requires("In", json!(["6"])));
        assert!(requires("NotIn", json!(["6"])) && !requires("NotIn", json!(["5"])));
        assert!(requires("Exists", json!(null)) && !requires("DoesNotExist", json!(null)));
        assert!(requires("Gt", json!(["4"])) && !requires("Gt", json!(["5"])) && requires("Lt", json!(["6"])));
    }

    #[test]
    fn a_node_selector_must_match_whole() {
        let pod = pod_info(json!({"nodeSelector": {"size": "5", "zone": "a"}}));
        assert!(NodeAffinity.filter(&pod, &None, &labelled_node("n", json!({"size": "5"}))).is_err());
        assert!(NodeAffinity.filter(&pod, &None, &labelled_node("n", json!({"size": "5", "zone": "a"}))).is_ok());
    }

    #[test]
    fn an_empty_term_matches_no_node() {
        let pod = pod_info(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}}),
        );
        assert!(NodeAffinity.filter(&pod, &None, &labelled_node("n", json!({}))).is_err());
    }
}
