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

/// The status at `now`, and when an eviction allowed before is to be forgotten.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    matching: &[Arc<Pod>],
    expected: i32,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let before = budget.status.clone().unwrap_or_default();
    let (disrupted, again) = still_disrupted(&before, matching, now);
    let healthy = matching.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods::is_active(pod) && pods::is_ready(pod) && !disrupted.contains_key(name)
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let desired = desired(budget, expected);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: Some(vec![condition(&before, budget, allowed > 0, now)]),
    };
    (status, again)
}

fn still_disrupted(
    before: &PodDisruptionBudgetStatus,
    matching: &[Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let (mut disrupted, mut again) = (BTreeMap::new(), None::<Duration>);
    for (name, since) in before.disrupted_pods.iter().flatten() {
        let pod = matching.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        let left = Duration::try_from(since.0.duration_since(now) + DELETION_TIMEOUT).unwrap_or_default();
        if pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) && !left.is_zero() {
            disrupted.insert(name.clone(), since.clone());
            again = Some(again.map_or(left, |again| again.min(left)));
        }
    }
    (disrupted, again)
}

fn condition(before: &PodDisruptionBudgetStatus, budget: &PodDisruptionBudget, allowed: bool, now: Timestamp) -> Condition {
    let (status, reason) = if allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let current = before.conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionAllowed");
    let since = current.filter(|current| current.status == status).map(|current| current.last_transition_time.clone());
    Condition {
        type_: "DisruptionAllowed".into(),
        status: status.into(),
        reason: reason.into(),
        message: String::new(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
    use serde_json::{Value, json};

    use super::{needs_scale, status};

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
        status(&budget(spec, none()), pods, expected, Timestamp::UNIX_EPOCH).0.disruptions_allowed.unwrap()
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
        let at = |time: &str| status(&budget, &pods, 2, time.parse().unwrap());
        let (soon, again) = at("2026-01-01T00:01:00Z");
        assert_eq!((soon.disruptions_allowed.unwrap(), again.map(|wait| wait.as_secs())), (0, Some(60)));
        assert_eq!(at("2026-01-01T00:02:01Z").0.disruptions_allowed, Some(1));
    }
}
