//! The status of a ReplicaSet. Pure.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::pods;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status that `active` pods, `terminating` ones and the failure to create or delete some amount to.
pub(super) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&anyhow::Error>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let spec = set.spec.clone().unwrap_or_default();
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let template = spec.template.and_then(|template| template.metadata).and_then(|meta| meta.labels).unwrap_or_default();
    let labeled = |pod: &&Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        template.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let available = |pod: &&Arc<Pod>| pods::is_available(pod, min_ready, now);
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: positive(active.iter().filter(labeled).count()),
        ready_replicas: positive(active.iter().filter(|pod| pods::is_ready(pod)).count()),
        available_replicas: positive(active.iter().filter(available).count()),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, active.len(), failure, now),
    }
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// Zero is left out on the wire.
fn positive(pods: usize) -> Option<i32> {
    Some(count(pods)).filter(|count| *count > 0)
}

fn conditions(set: &ReplicaSet, active: usize, failure: Option<&anyhow::Error>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let failing = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        Some(error) if !failing => {
            let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let reason = if count(active) < wanted { "FailedCreate" } else { "FailedDelete" };
            conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.into(),
                status: "True".into(),
                reason: Some(reason.into()),
                message: Some(error.to_string()),
                last_transition_time: Some(Time(now)),
            });
        }
        None if failing => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        _ => {}
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

/// When the next ready pod will have been ready for long enough.
pub(super) fn next_available(set: &ReplicaSet, active: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let waits = active.iter().filter_map(|pod| pods::until_available(pod, min_ready, now));
    waits.filter(|wait| !wait.is_zero()).min().map(|wait| wait + Duration::from_millis(10))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use jiff::Timestamp;
    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use serde_json::json;

    use super::{next_available, status};

    fn set() -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "spec": {
                "replicas": 2, "minReadySeconds": 10, "selector": {},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
            },
        }))
        .unwrap()
    }

    fn pod(ready_at: &str, labels: serde_json::Value) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"labels": labels},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ready_at}]},
            }))
            .unwrap(),
        )
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn counts_ready_available_and_fully_labeled_pods() {
        let pods =
            [pod("2026-01-01T00:00:00Z", json!({"app": "web", "tier": "front"})), pod("2026-01-01T00:00:07Z", json!({"app": "web"}))];
        let now = at("2026-01-01T00:00:12Z");
        let status = status(&set(), &pods, 1, None, now);
        let counts = (status.replicas, status.ready_replicas, status.available_replicas, status.fully_labeled_replicas);
        assert_eq!(counts, (2, Some(2), Some(1), Some(1)));
        assert_eq!((status.terminating_replicas, status.observed_generation), (Some(1), Some(3)));
        assert!(next_available(&set(), &pods, now).unwrap() >= Duration::from_secs(5));
    }

    #[test]
    fn a_failure_shows_as_a_condition_until_it_is_over() {
        let mut set = set();
        let error = anyhow::anyhow!("exceeded quota");
        let now = at("2026-01-01T00:00:00Z");
        set.status = Some(status(&set, &[], 0, Some(&error), now));
        let condition = set.status.clone().unwrap().conditions.unwrap().remove(0);
        assert_eq!((condition.reason.as_deref(), condition.message.as_deref()), (Some("FailedCreate"), Some("exceeded quota")));
        assert_eq!(status(&set, &[], 0, None, now).conditions, None);
    }
}
