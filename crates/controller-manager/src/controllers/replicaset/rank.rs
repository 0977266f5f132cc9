//! Which pods go first when there are too many (upstream: `ActivePodsWithRanks`). Pure.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::pods;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods of `active` to delete.
///
/// First unassigned, then pending, then unready pods; then those of lowest deletion cost, on the most crowded nodes, ready
/// for the shortest time, restarted most often, youngest. Ages count by powers of two, so that among pods of about the same
/// age chance (their UID) decides.
pub(crate) fn doomed(active: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut order: Vec<_> = active.to_vec();
    if count < order.len() {
        let crowd = crowds(related);
        order.sort_by(|a, b| compare(a, b, &crowd, now));
    }
    order.truncate(count);
    order
}

fn crowds(related: &[Arc<Pod>]) -> HashMap<&str, usize> {
    let mut crowds = HashMap::new();
    for pod in related.iter().filter(|pod| pods::is_active(pod)) {
        *crowds.entry(node(pod)).or_default() += 1;
    }
    crowds
}

fn compare(a: &Pod, b: &Pod, crowds: &HashMap<&str, usize>, now: Timestamp) -> Ordering {
    let crowd = |pod| crowds.get(node(pod)).copied().unwrap_or(0);
    let assigned = |pod| !node(pod).is_empty();
    assigned(a)
        .cmp(&assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| crowd(b).cmp(&crowd(a)))
        .then_with(|| younger(pods::ready_since(a), pods::ready_since(b), a, b, now))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| younger(created(a), created(b), a, b, now))
}

/// Younger first, by magnitude of age; within one magnitude by UID.
fn younger(a: Option<Timestamp>, b: Option<Timestamp>, pod_a: &Pod, pod_b: &Pod, now: Timestamp) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (magnitude(a, now), magnitude(b, now)) {
        (a, b) if a == b => pod_a.metadata.uid.cmp(&pod_b.metadata.uid),
        (a, b) => a.cmp(&b),
    }
}

/// Logarithm of the age; an unknown time is the youngest of all.
fn magnitude(time: Option<Timestamp>, now: Timestamp) -> i64 {
    let age = time.map_or(0, |time| now.duration_since(time).as_nanos());
    u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn phase_rank(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn cost(pod: &Pod) -> i32 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    annotation.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let count = |statuses: &Option<Vec<ContainerStatus>>| statuses.iter().flatten().map(|status| status.restart_count).max().unwrap_or(0);
    pod.status.as_ref().map_or(0, |status| count(&status.container_statuses))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::doomed;

    fn pod(name: &str, node: &str, phase: &str, ready_at: Option<&str>, extra: Value) -> Arc<Pod> {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": ready_at}]);
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": if ready_at.is_some() { ready } else { json!([]) }},
        });
        if let Some(annotations) = extra.get("annotations") {
            pod["metadata"]["annotations"] = annotations.clone();
        }
        if let Some(restarts) = extra.get("restarts") {
            pod["status"]["containerStatuses"] = json!([
                {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": restarts}
            ]);
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn first(active: &[Arc<Pod>]) -> String {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        doomed(active, active, 1, now)[0].metadata.name.clone().unwrap()
    }

    const READY: Option<&str> = Some("2026-01-01T00:01:00Z");

    #[test]
    fn unassigned_then_pending_then_unready_go_first() {
        let running = pod("ready", "n1", "Running", READY, json!({}));
        let unready = pod("unready", "n1", "Running", None, json!({}));
        let pending = pod("pending", "n1", "Pending", None, json!({}));
        let unassigned = pod("unassigned", "", "Pending", None, json!({}));
        assert_eq!(first(&[running.clone(), unready.clone(), pending.clone(), unassigned]), "unassigned");
        assert_eq!(first(&[running.clone(), unready.clone(), pending]), "pending");
        assert_eq!(first(&[running, unready]), "unready");
    }

    #[test]
    fn a_low_deletion_cost_goes_before_a_crowded_node() {
        let cheap = json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}});
        let pods = [
            pod("crowded-1", "n1", "Running", READY, json!({})),
            pod("crowded-2", "n1", "Running", READY, json!({})),
            pod("cheap", "n2", "Running", READY, cheap),
        ];
        assert_eq!(first(&pods), "cheap");
        assert_eq!(
            first(&pods[..2].iter().cloned().chain([pod("alone", "n2", "Running", READY, json!({}))]).collect::<Vec<_>>()),
            "crowded-1"
        );
    }

    #[test]
    fn the_recently_ready_and_the_often_restarted_go_first() {
        let old = pod("old", "n1", "Running", READY, json!({}));
        let fresh = pod("fresh", "n2", "Running", Some("2026-01-01T23:59:00Z"), json!({}));
        assert_eq!(first(&[old.clone(), fresh]), "fresh");
        let restarted = pod("restarted", "n2", "Running", READY, json!({"restarts": 7}));
        assert_eq!(first(&[old, restarted]), "restarted");
    }
}
