//! Prefers nodes on which CPU and memory would be used in like shares.

use crate::cache::{NodeInfo, PodInfo, Snapshot};
use crate::framework::{MAX_SCORE, Plugin, Score};

pub(super) struct BalancedAllocation;

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn as_score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl Score for BalancedAllocation {
    /// A pod that requests nothing shifts no balance.
    fn skip(&self, pod: &PodInfo) -> bool {
        pod.requests.positive().next().is_none()
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let share = |used: i64, total: i64| if total == 0 { 1.0 } else { (used as f64 / total as f64).min(1.0) };
        let cpu = share(node.requested.milli_cpu + pod.requests.milli_cpu, node.allocatable.milli_cpu);
        let memory = share(node.requested.memory + pod.requests.memory, node.allocatable.memory);
        // Of two values, the standard deviation is half the distance.
        ((1.0 - (cpu - memory).abs() / 2.0) * MAX_SCORE as f64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod_info};
    use serde_json::json;

    #[test]
    fn like_shares_score_best() {
        let node = node("n", json!({}), json!({"allocatable": {"cpu": "1", "memory": "1000", "pods": "9"}}));
        let pod = |cpu: &str, memory: &str| {
            pod_info(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}))
        };
        let score = |pod| BalancedAllocation.score(&pod, &node, &Snapshot::default());
        assert_eq!((score(pod("500m", "500")), score(pod("1", "0"))), (100, 50));
    }
}
