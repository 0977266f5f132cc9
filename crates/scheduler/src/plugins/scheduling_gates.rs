//! Holds pods back while they have scheduling gates (KEP-3521).

use k8s_openapi::api::core::v1::Pod;

use crate::framework::{ClusterEvent, Plugin, PreEnqueue, Refusal};

pub(super) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn may_help(&self, event: ClusterEvent) -> bool {
        event == ClusterEvent::PodUpdated
    }

    fn as_pre_enqueue(&self) -> Option<&dyn PreEnqueue> {
        Some(self)
    }
}

impl PreEnqueue for SchedulingGates {
    fn admit(&self, pod: &Pod) -> Result<(), Refusal> {
        let gates: Vec<_> =
            pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).map(|gate| gate.name.as_str()).collect();
        if gates.is_empty() {
            return Ok(());
        }
        let reason = format!("waiting for scheduling gates: [{}]", gates.join(" "));
        Err(Refusal::unresolvable(self.name(), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gated_pod_waits_and_its_gates_are_named() {
        let pod = crate::testing::pod(serde_json::json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]}));
        assert_eq!(SchedulingGates.admit(&pod).unwrap_err().reasons, ["waiting for scheduling gates: [a b]"]);
    }
}
