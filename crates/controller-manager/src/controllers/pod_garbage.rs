//! Deletes pods nobody will miss: finished ones beyond a threshold, those of nodes that are gone, and those that were
//! deleted before they ever got a node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use client::{Key, informer::Informer, retry};
use futures::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{context::Context, pods};

/// Pause between two looks.
const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before its pods go: the cache may lag behind a node that just came.
const QUARANTINE: Duration = Duration::from_secs(40);

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let pods: Informer<Pod> = context.informers.of();
        let nodes: Informer<Node> = context.informers.of();
        pods.synced().await;
        nodes.synced().await;
        let mut missing = HashMap::new();
        while context.shutdown.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
            let exists = |name: &str| nodes.get(&Key::cluster(name)).is_some();
            let gone = gone_nodes(&pods.list(), exists, &mut missing, Instant::now());
            let nodes: Api<Node> = Api::all(context.client.clone());
            let mut confirmed = Vec::new();
            for name in gone {
                // Only the server knows for sure.
                if matches!(nodes.get_opt(&name).await, Ok(None)) {
                    confirmed.push(name);
                }
            }
            for doomed in plan(&pods.list(), &confirmed, context.options.terminated_pod_threshold) {
                if let Err(error) = delete(&context, &doomed).await {
                    tracing::warn!(pod = %Key::of(&doomed.0.metadata), %error, "cannot delete pod");
                }
            }
        }
    }
    .boxed()
}

/// Nodes that pods name and that have been missing for long enough.
fn gone_nodes(pods: &[Arc<Pod>], exists: impl Fn(&str) -> bool, missing: &mut HashMap<String, Instant>, now: Instant) -> Vec<String> {
    let named = pods.iter().map(|pod| node(pod)).filter(|name| !name.is_empty() && !exists(name));
    let named: std::collections::BTreeSet<&str> = named.collect();
    missing.retain(|name, _| named.contains(name.as_str()));
    for name in &named {
        missing.entry((*name).to_owned()).or_insert(now);
    }
    named.into_iter().filter(|name| now.duration_since(missing[*name]) >= QUARANTINE).map(str::to_owned).collect()
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Why a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    TooMany,
    NodeGone,
    NeverScheduled,
}

fn plan(pods: &[Arc<Pod>], gone: &[String], threshold: usize) -> Vec<(Arc<Pod>, Reason)> {
    let mut doomed = Vec::new();
    if threshold > 0 {
        let mut finished: Vec<_> = pods.iter().filter(|pod| pods::is_finished(pod) && pod.metadata.deletion_timestamp.is_none()).collect();
        finished.sort_by_key(|pod| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.metadata.name.clone()));
        let excess = finished.len().saturating_sub(threshold);
        doomed.extend(finished.into_iter().take(excess).map(|pod| (Arc::clone(pod), Reason::TooMany)));
    }
    for pod in pods {
        if gone.iter().any(|name| name == node(pod)) {
            doomed.push((Arc::clone(pod), Reason::NodeGone));
        } else if node(pod).is_empty() && pod.metadata.deletion_timestamp.is_some() {
            doomed.push((Arc::clone(pod), Reason::NeverScheduled));
        }
    }
    doomed
}

async fn delete(context: &Context, (pod, reason): &(Arc<Pod>, Reason)) -> kube::Result<()> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    if !pods::is_finished(pod) {
        let patch = Patch::Strategic(failed(pod, *reason, component::clock::now()));
        if retry::optional(api.patch_status(name, &PatchParams::default(), &patch).await)?.is_none() {
            return Ok(());
        }
    }
    tracing::info!(pod = %Key::of(&pod.metadata), ?reason, "deleting pod");
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
    let deleted = api.delete(name, &DeleteParams::default().grace_period(0).preconditions(preconditions)).await;
    retry::optional(deleted).map(drop)
}

/// Marks a pod as failed, so that its controller does not wait for it.
fn failed(pod: &Pod, reason: Reason, now: Timestamp) -> serde_json::Value {
    let mut status = json!({"phase": "Failed"});
    if reason == Reason::NodeGone {
        let condition = PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some("DeletionByPodGC".into()),
            message: Some("PodGC: node no longer exists".into()),
            last_transition_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
            ..PodCondition::default()
        };
        status["conditions"] = json!([condition]);
    }
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use tokio::time::Instant;

    use super::{QUARANTINE, Reason, gone_nodes, plan};

    fn pod(name: &str, node: &str, phase: &str, second: u32) -> Arc<Pod> {
        let created = format!("2026-01-01T00:00:{second:02}Z");
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "creationTimestamp": created},
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase},
            }))
            .unwrap(),
        )
    }

    fn names(doomed: &[(Arc<Pod>, Reason)]) -> Vec<(String, Reason)> {
        doomed.iter().map(|(pod, reason)| (pod.metadata.name.clone().unwrap(), *reason)).collect()
    }

    #[test]
    fn deletes_the_oldest_finished_pods_beyond_the_threshold() {
        let pods = [pod("new", "n", "Succeeded", 3), pod("old", "n", "Failed", 1), pod("running", "n", "Running", 0)];
        assert_eq!(names(&plan(&pods, &[], 1)), [("old".into(), Reason::TooMany)]);
        assert!(plan(&pods, &[], 0).is_empty());
    }

    #[test]
    fn deletes_pods_of_a_node_only_after_it_was_missing_for_a_while() {
        let pods = [pod("a", "gone", "Running", 0), pod("b", "here", "Running", 0)];
        let (mut missing, now) = (HashMap::new(), Instant::now());
        let exists = |name: &str| name == "here";
        assert!(gone_nodes(&pods, exists, &mut missing, now).is_empty());
        let gone = gone_nodes(&pods, exists, &mut missing, now + QUARANTINE);
        assert_eq!(gone, ["gone"]);
        assert_eq!(names(&plan(&pods, &gone, 0)), [("a".into(), Reason::NodeGone)]);
    }

    #[test]
    fn a_node_that_comes_back_starts_its_quarantine_anew() {
        let pods = [pod("a", "n", "Running", 0)];
        let (mut missing, now) = (HashMap::new(), Instant::now());
        gone_nodes(&pods, |_| false, &mut missing, now);
        gone_nodes(&pods, |_| true, &mut missing, now);
        assert!(gone_nodes(&pods, |_| false, &mut missing, now + QUARANTINE).is_empty());
    }
}
