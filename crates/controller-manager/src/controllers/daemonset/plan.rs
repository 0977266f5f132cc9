//! What to do about one DaemonSet. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetStatus},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::nodes::{self, HASH, belongs, target};
use crate::{
    controllers::deployment::limits::{Rounding, scaled},
    pods,
};

/// Pods created or deleted in one go.
const BURST: usize = 250;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Pods to make.
    pub(super) create: Vec<Pod>,
    /// Pods to delete.
    pub(super) delete: Vec<Arc<Pod>>,
}

/// Pods by the node they are on or meant for.
fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<String, Vec<Arc<Pod>>> {
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(target(pod).unwrap_or_default()).or_default().push(Arc::clone(pod));
    }
    by_node
}

/// The steps; `hash` names the present template.
pub(super) fn plan(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>], hash: &str, now: Timestamp) -> Plan {
    let (by_node, mut plan) = (by_node(pods), Plan::default());
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let on_node = by_node.get(name).map(Vec::as_slice).unwrap_or_default();
        place(set, node, on_node, hash, &mut plan);
    }
    // Pods meant for a node that is gone will never be placed.
    for (name, lost) in &by_node {
        let known = nodes.iter().any(|node| node.metadata.name.as_ref() == Some(name));
        let unplaced = lost.iter().filter(|pod| !known && pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()));
        plan.delete.extend(unplaced.filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned());
    }
    if plan.create.is_empty() && plan.delete.is_empty() {
        plan.delete = outdated(set, nodes, &by_node, hash, now);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

fn place(set: &DaemonSet, node: &Node, on_node: &[Arc<Pod>], hash: &str, plan: &mut Plan) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let staying: Vec<_> = on_node.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned().collect();
    let (starts, goes_on) = belongs(set, node);
    if !goes_on {
        plan.delete.extend(staying);
        return;
    }
    let (ended, mut running): (Vec<_>, Vec<_>) = staying.into_iter().partition(|pod| pods::is_finished(pod));
    if on_node.is_empty() && starts {
        plan.create.push(nodes::pod(set, name, hash));
    }
    // Ended pods go; the next sync finds the node empty.
    plan.delete.extend(ended);
    // Of several pods on one node the oldest stays.
    running.sort_by_key(|pod| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.metadata.name.clone()));
    plan.delete.extend(running.into_iter().skip(1));
}

/// Pods of an older template, as many as may be missing at once; those that are not available anyway go first.
fn outdated(set: &DaemonSet, nodes: &[Arc<Node>], by_node: &BTreeMap<String, Vec<Arc<Pod>>>, hash: &str, now: Timestamp) -> Vec<Arc<Pod>> {
    let spec = set.spec.clone().unwrap_or_default();
    let strategy = spec.update_strategy.unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return Vec::new();
    }
    let wanted: Vec<_> = nodes.iter().filter(|node| belongs(set, node).0).collect();
    let total = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
    let limit = strategy.rolling_update.and_then(|rolling| rolling.max_unavailable).unwrap_or(IntOrString::Int(1));
    let limit = scaled(Some(&limit), total, Rounding::Up).max(1);
    let available = |pod: &Pod| pods::is_available(pod, spec.min_ready_seconds.unwrap_or(0), now);
    let (mut unavailable, mut broken, mut sound) = (0, Vec::new(), Vec::new());
    for node in wanted {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let pod = by_node.get(name).into_iter().flatten().find(|pod| pod.metadata.deletion_timestamp.is_none());
        let Some(pod) = pod else {
            unavailable += 1;
            continue;
        };
        unavailable += i32::from(!available(pod));
        if hash_of(pod) != hash {
            if available(pod) { sound.push(Arc::clone(pod)) } else { broken.push(Arc::clone(pod)) }
        }
    }
    sound.truncate(usize::try_from(limit - unavailable).unwrap_or(0));
    broken.extend(sound);
    broken
}

fn hash_of(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH)).map(String::as_str).unwrap_or_default()
}

/// The status that nodes and pods amount to.
pub(super) fn status(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>], hash: &str, now: Timestamp) -> DaemonSetStatus {
    let by_node = by_node(pods);
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let mut status = DaemonSetStatus { observed_generation: set.metadata.generation, ..DaemonSetStatus::default() };
    let (mut updated, mut available, mut unavailable) = (0, 0, 0);
    for node in nodes {
        let on_node = by_node.get(node.metadata.name.as_deref().unwrap_or_default()).map(Vec::as_slice).unwrap_or_default();
        if !belongs(set, node).0 {
            status.number_misscheduled += i32::from(!on_node.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        let oldest = on_node.iter().min_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let Some(pod) = oldest else {
            unavailable += 1;
            continue;
        };
        let is_available = pods::is_available(pod, min_ready, now);
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(is_available);
        unavailable += i32::from(!is_available);
        updated += i32::from(hash_of(pod) == hash);
    }
    let positive = |count: i32| Some(count).filter(|count| *count > 0);
    status.updated_number_scheduled = positive(updated);
    status.number_available = positive(available);
    status.number_unavailable = positive(unavailable);
    status.collision_count = set.status.as_ref().and_then(|status| status.collision_count);
    status.conditions = set.status.as_ref().and_then(|status| status.conditions.clone());
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::{
        apps::v1::DaemonSet,
        core::v1::{Node, Pod},
    };
    use serde_json::json;

    use super::{Plan, plan, status};
    use crate::controllers::daemonset::nodes;

    fn set() -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "ds", "uid": "ds"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [], "nodeSelector": {"pool": "a"}}}},
        }))
        .unwrap()
    }

    fn node(name: &str, pool: &str) -> Arc<Node> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"pool": pool}}})).unwrap())
    }

    fn pod(node: &str, hash: &str, ready: bool) -> Arc<Pod> {
        let mut pod = nodes::pod(&set(), node, hash);
        pod.metadata.name = Some(format!("ds-{node}-{hash}"));
        let ready = if ready { "True" } else { "False" };
        pod.status = serde_json::from_value(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]})).unwrap();
        Arc::new(pod)
    }

    fn planned(nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Plan {
        plan(&set(), nodes, pods, "new", Timestamp::UNIX_EPOCH)
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
    }

    #[test]
    fn starts_one_pod_on_each_node_that_fits() {
        let made = planned(&[node("n1", "a"), node("n2", "b"), node("n3", "a")], &[pod("n1", "new", true)]);
        assert_eq!(made.create.iter().map(nodes::target).collect::<Vec<_>>(), [Some("n3".into())]);
        assert!(made.delete.is_empty());
    }

    #[test]
    fn leaves_nodes_that_fit_no_more() {
        assert_eq!(names(&planned(&[node("n1", "b")], &[pod("n1", "new", true)]).delete), ["ds-n1-new"]);
    }

    #[test]
    fn updates_one_node_at_a_time_and_broken_ones_at_once() {
        let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "a")];
        let all_ready = [pod("n1", "old", true), pod("n2", "old", true), pod("n3", "old", true)];
        assert_eq!(names(&planned(&nodes, &all_ready).delete), ["ds-n1-old"]);
        let one_broken = [pod("n1", "old", true), pod("n2", "old", false), pod("n3", "old", true)];
        assert_eq!(names(&planned(&nodes, &one_broken).delete), ["ds-n2-old"]);
        let one_starting = [pod("n1", "new", false), pod("n2", "old", true), pod("n3", "old", true)];
        assert!(planned(&nodes, &one_starting).delete.is_empty());
    }

    #[test]
    fn counts_where_it_runs_and_where_it_should() {
        let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")];
        let pods = [pod("n1", "new", true), pod("n3", "old", true)];
        let status = status(&set(), &nodes, &pods, "new", Timestamp::UNIX_EPOCH);
        assert_eq!((status.desired_number_scheduled, status.current_number_scheduled, status.number_misscheduled), (2, 1, 1));
        assert_eq!((status.number_available, status.number_unavailable, status.updated_number_scheduled), (Some(1), Some(1), Some(1)));
    }
}
