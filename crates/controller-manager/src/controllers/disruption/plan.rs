//! How many pods of a budget may be evicted. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};

use crate::{
    controllers::deployment::limits::{Rounding, scaled},
    pods,
};

/// An eviction the API server allowed must show as a deletion within this time, or it is forgotten.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// What a budget's `expected` pods are: all it matches, or as many as their controllers ask for.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// Healthy pods the budget asks for, of `expected` in all.
fn desired(budget: &PodDisruptionBudget, expected: i32) -> i32 {
    let spec = budget.spec.clone().unwrap_or_default();
    match (spec.max_unavailable, spec.min_available) {
        (Some(unavailable), _) => (expected - scaled(Some(&unavailable), expected, Rounding::Up)).max(0),
        (None, Some(available)) => scaled(Some(&available), expected, Rounding::Up),
        (None, None) => 0,
    }
}

/// What a look at a budget comes to.
pub(super) struct Plan {
    /// The budget's status at the time of the look.
    pub(super) status: PodDisruptionBudgetStatus,
    /// When an eviction allowed before is to be forgotten.
    pub(super) again: Option<Duration>,
    /// Pods whose eviction was allowed, and who are still there and not going.
    pub(super) overdue: Vec<Arc<Pod>>,
}

/// Counts the pods that `budget` matches; `expected` are as many as it is about.
pub(super) fn plan(budget: &PodDisruptionBudget, matching: &[Arc<Pod>], expected: i32, now: Timestamp) -> Plan {
    let before = budget.status.clone().unwrap_or_default();
    let Disrupted { pods: disrupted, again, overdue } = still_disrupted(&before, matching, now);
    let healthy = matching.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.deletion_timestamp.is_none() && pods::is_ready(pod) && !disrupted.contains_key(name)
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let desired = desired(budget, expected);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let generation = budget.metadata.generation;
    let (word, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        observed_generation: generation,
        conditions: Some(vec![condition(&before, (word, reason, ""), generation, now)]),
    };
    Plan { status, again, overdue }
}

/// The status of a budget that cannot be counted: nothing may go, and why.
pub(super) fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let before = budget.status.clone().unwrap_or_default();
    let generation = before.observed_generation;
    let condition = condition(&before, ("False", "SyncFailed", why), generation, now);
    PodDisruptionBudgetStatus { disruptions_allowed: Some(0), conditions: Some(vec![condition]), ..before }
}

#[derive(Default)]
struct Disrupted {
    pods: BTreeMap<String, Time>,
    again: Option<Duration>,
    overdue: Vec<Arc<Pod>>,
}

fn still_disrupted(before: &PodDisruptionBudgetStatus, matching: &[Arc<Pod>], now: Timestamp) -> Disrupted {
    let mut disrupted = Disrupted::default();
    let staying = matching.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    for pod in staying {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let Some(since) = before.disrupted_pods.as_ref().and_then(|pods| pods.get(&name)) else { continue };
        let left = Duration::try_from(since.0.duration_since(now) + DELETION_TIMEOUT).unwrap_or_default();
        if left.is_zero() {
            disrupted.overdue.push(Arc::clone(pod));
        } else {
            disrupted.pods.insert(name, since.clone());
            disrupted.again = Some(disrupted.again.map_or(left, |again| again.min(left)));
        }
    }
    disrupted
}

fn condition(
    before: &PodDisruptionBudgetStatus,
    (status, reason, message): (&str, &str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let current = before.conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionAllowed");
    let since = current.filter(|current| current.status == status).map(|current| current.last_transition_time.clone());
    Condition {
        type_: "DisruptionAllowed".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(now)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
    use serde_json::{Value, json};

    use super::{failed, needs_scale, plan};

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"generation": 1}, "spec": spec, "status": status})).unwrap()
    }

    fn pod(name: &str, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
    }

    fn none() -> Value {
        json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
    }

    fn allowed(spec: Value, pods: &[Arc<Pod>], expected: i32) -> i32 {
        plan(&budget(spec, none()), pods, expected, Timestamp::UNIX_EPOCH).status.disruptions_allowed.unwrap()
    }

    #[test]
    fn allows_what_is_healthy_beyond_the_minimum() {
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        assert_eq!(allowed(json!({"minAvailable": 1}), &pods, 3), 1);
        assert_eq!(allowed(json!({"minAvailable": "67%"}), &pods, 3), 0);
        assert_eq!(allowed(json!({"maxUnavailable": 1}), &pods, 3), 0);
        assert_eq!(allowed(json!({"maxUnavailable": 2}), &pods, 3), 1);
    }

    #[test]
    fn only_relative_budgets_need_to_know_the_size_asked_for() {
        assert!(!needs_scale(&budget(json!({"minAvailable": 1}), none())));
        assert!(needs_scale(&budget(json!({"minAvailable": "50%"}), none())));
        assert!(needs_scale(&budget(json!({"maxUnavailable": 1}), none())));
    }

    #[test]
    fn a_pod_about_to_go_is_not_healthy_until_the_eviction_is_forgotten() {
        let mut before = none();
        before["disruptedPods"] = json!({"a": "2026-01-01T00:00:00Z"});
        let budget = budget(json!({"minAvailable": 1}), before);
        let pods = [pod("a", true), pod("b", true)];
        let at = |time: &str| plan(&budget, &pods, 2, time.parse().unwrap());
        let soon = at("2026-01-01T00:01:00Z");
        assert_eq!((soon.status.disruptions_allowed.unwrap(), soon.again.map(|wait| wait.as_secs())), (0, Some(60)));
        let late = at("2026-01-01T00:02:01Z");
        assert_eq!(late.status.disruptions_allowed, Some(1));
        assert_eq!(late.overdue[0].metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn what_cannot_be_counted_may_not_go() {
        let mut before = none();
        before["disruptionsAllowed"] = json!(2);
        let status = failed(&budget(json!({"maxUnavailable": 1}), before), "found no controllers for pod \"p\"", Timestamp::UNIX_EPOCH);
        assert_eq!(status.disruptions_allowed, Some(0));
        let condition = &status.conditions.unwrap()[0];
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("SyncFailed", "found no controllers for pod \"p\""));
    }
}
