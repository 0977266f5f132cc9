//! Resources: what a pod requests must be free; nodes with more left score higher (LeastAllocated).

use crate::cache::{NodeInfo, PodInfo, Resources, Snapshot};
use crate::framework::{ClusterEvent, Filter, MAX_SCORE, Plugin, Refusal, Resolvable, Score, State};

pub(super) struct Fit;

impl Plugin for Fit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        event != ClusterEvent::PodUpdated
    }

    fn as_filter(&self) -> Option<&dyn Filter> {
        Some(self)
    }

    fn as_score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl Filter for Fit {
    fn filter(&self, pod: &PodInfo, _: &State, node: &NodeInfo) -> Result<(), Refusal> {
        let (mut reasons, mut hopeless) = (Vec::new(), false);
        if i64::try_from(node.pod_count()).unwrap_or(i64::MAX) + 1 > node.allocatable.pods {
            reasons.push("Too many pods".to_owned());
        }
        for (name, wanted) in pod.requests.positive() {
            let (total, used) = (node.allocatable.get(name), node.requested.get(name));
            if wanted > total - used {
                reasons.push(format!("Insufficient {name}"));
                hopeless |= wanted > total;
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let resolvable = if hopeless { Resolvable::No } else { Resolvable::Yes };
        Err(Refusal { plugin: self.name(), reasons, resolvable })
    }
}

impl Score for Fit {
    fn score(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let left = |total: i64, used: i64| if total == 0 || used > total { 0 } else { (total - used) * MAX_SCORE / total };
        let after = |of: fn(&Resources) -> i64| of(&node.scored) + of(&pod.scored);
        let cpu = left(node.allocatable.milli_cpu, after(|resources| resources.milli_cpu));
        let memory = left(node.allocatable.memory, after(|resources| resources.memory));
        (cpu + memory) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;

    fn pod(cpu: &str) -> PodInfo {
        pod_info(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
    }

    fn small() -> NodeInfo {
        node("n", json!({}), json!({"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "2"}}))
    }

    #[test]
    fn what_does_not_fit_is_named_and_hopeless_only_beyond_the_whole_node() {
        let mut node = small();
        assert!(Fit.filter(&pod("1"), &None, &node).is_ok());
        assert_eq!(Fit.filter(&pod("2"), &None, &node).unwrap_err().resolvable, Resolvable::No);
        node.add(std::sync::Arc::new(pod("600m")));
        let refusal = Fit.filter(&pod("500m"), &None, &node).unwrap_err();
        assert_eq!((refusal.reasons, refusal.resolvable), (vec!["Insufficient cpu".to_owned()], Resolvable::Yes));
        node.add(std::sync::Arc::new(pod("0")));
        assert_eq!(Fit.filter(&pod("0"), &None, &node).unwrap_err().reasons, ["Too many pods"]);
    }

    #[test]
    fn the_emptier_node_scores_higher() {
        let (empty, mut full) = (small(), small());
        full.add(std::sync::Arc::new(pod("600m")));
        let score = |node| Fit.score(&pod("100m"), node, &Snapshot::default());
        assert!(score(&empty) > score(&full));
    }
}
