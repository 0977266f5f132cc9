//! Takes back the announcement of a disruption that did not come: a pod said to be evicted that is not being deleted.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome, Queue},
    retry,
};
use component::Shutdown;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::PostParams};

use crate::pods;

const CONDITION: &str = "DisruptionTarget";
/// How long after the announcement the deletion must have begun.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// Watches the pods and works until `shutdown`.
pub(super) async fn run(client: Client, pods: Informer<Pod>, queue: Queue<Key>, shutdown: Shutdown) {
    let sink = queue.clone();
    pods.on_change(move |change| {
        let pod = change.object();
        if let (false, Some(left)) = (matches!(change, Change::Deleted(_)), left(pod, component::clock::now())) {
            sink.add_after(Key::of(&pod.metadata), left);
        }
    });
    queue::work(queue, 1, shutdown, move |key| reconcile(client.clone(), pods.clone(), key)).await;
}

async fn reconcile(client: Client, pods: Informer<Pod>, key: Key) -> anyhow::Result<Outcome> {
    let Some(pod) = pods.get(&key) else { return Ok(Outcome::Done) };
    let now = component::clock::now();
    match left(&pod, now) {
        None => return Ok(Outcome::Done),
        Some(left) if !left.is_zero() => return Ok(Outcome::After(left)),
        Some(_) => {}
    }
    let api: Api<Pod> = Api::namespaced(client, &key.namespace);
    let written = api.replace_status(&key.name, &PostParams::default(), &withdrawn(&pod, now)).await;
    retry::optional(written).context("withdraw DisruptionTarget")?;
    Ok(Outcome::Done)
}

/// How long the announcement still stands; `None` where there is none to take back. What a kubelet announces may take any time.
fn left(pod: &Pod, now: Timestamp) -> Option<Duration> {
    if pod.metadata.deletion_timestamp.is_some() || pods::is_finished(pod) {
        return None;
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let announced = conditions.iter().find(|condition| condition.type_ == CONDITION && condition.status == "True")?;
    if announced.reason.as_deref() == Some("TerminationByKubelet") {
        return None;
    }
    let since = announced.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Some(Duration::try_from(since.duration_since(now) + TIMEOUT).unwrap_or_default())
}

fn withdrawn(pod: &Arc<Pod>, now: Timestamp) -> Pod {
    let mut pod = pod.as_ref().clone();
    for condition in pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
        if condition.type_ == CONDITION {
            *condition = PodCondition {
                type_: CONDITION.into(),
                status: "False".into(),
                last_transition_time: Some(Time(now)),
                ..PodCondition::default()
            };
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::{left, withdrawn};

    fn pod(reason: &str, patch: &Value) -> Pod {
        let condition =
            json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [condition]}});
        for (part, fields) in patch.as_object().unwrap() {
            pod[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn an_announcement_stands_for_two_minutes() {
        let left = |time: &str| left(&pod("EvictionByEvictionAPI", &json!({})), time.parse().unwrap());
        assert_eq!(left("2026-01-01T00:00:30Z"), Some(Duration::from_secs(90)));
        assert_eq!(left("2026-01-01T00:03:00Z"), Some(Duration::ZERO));
    }

    #[test]
    fn nothing_is_taken_back_from_pods_that_go_or_that_a_kubelet_ends() {
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        assert_eq!(left(&pod("EvictionByEvictionAPI", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), now), None);
        assert_eq!(left(&pod("EvictionByEvictionAPI", &json!({"status": {"phase": "Failed"}})), now), None);
        assert_eq!(left(&pod("TerminationByKubelet", &json!({})), now), None);
    }

    #[test]
    fn what_is_taken_back_is_false_without_a_reason() {
        let now = "2026-01-01T00:03:00Z".parse().unwrap();
        let pod = withdrawn(&Arc::new(pod("EvictionByEvictionAPI", &json!({}))), now);
        assert_eq!(left(&pod, now), None);
        let condition = &pod.status.unwrap().conditions.unwrap()[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", None));
    }
}
