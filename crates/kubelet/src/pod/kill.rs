//! Stopping containers: preStop hook, then the runtime's stop with what is left of the grace period.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::time::Instant;

use super::{facts, hooks};
use crate::{
    cri::{
        describe,
        observed::{self, Observed},
        v1,
    },
    node::Node,
};

/// Containers get at least this long, so that a preStop hook that used up the time does not mean SIGKILL at once.
const LEAST_GRACE: i64 = 2;

/// Stops all containers of the pod, sidecars last, and then its sandboxes.
pub(crate) async fn everything(node: &Node, pod: &Pod, observed: &Observed, grace: i64) {
    let deadline = Instant::now() + Duration::from_secs(grace.max(0).unsigned_abs());
    let sidecars: Vec<&str> = sidecars(pod);
    let (late, first): (Vec<_>, Vec<_>) = observed.running().partition(|c| sidecars.contains(&c.name.as_str()));
    let why = |container: &observed::Container| format!("Stopping container {}", container.name);
    join_all(first.into_iter().map(|c| async move { one(node, pod, (&c.id, &c.name), &why(c), grace).await })).await;
    for name in sidecars.iter().rev() {
        for container in late.iter().filter(|c| c.name == *name) {
            let left = i64::try_from(deadline.saturating_duration_since(Instant::now()).as_secs()).unwrap_or(0);
            one(node, pod, (&container.id, &container.name), &why(container), left.min(grace)).await;
        }
    }
    for sandbox in observed.sandboxes.iter().filter(|s| s.ready) {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
        if let Err(error) = node.cri.stop_pod_sandbox(request).await {
            let text = format!(
                "error killing pod: failed to \"KillPodSandbox\" for {:?} with KillPodSandboxError: {:?}",
                facts::uid(pod),
                describe(&error)
            );
            node.events.pod(pod, None, "Warning", "FailedKillPod", &text);
            // The caller looks again at once; do not press a runtime that cannot.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

fn sidecars(pod: &Pod) -> Vec<&str> {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    inits.filter(|c| facts::is_sidecar(c)).map(|c| c.name.as_str()).collect()
}

/// Stops the container `(id, name)` within `grace` seconds and says `why`.
pub(crate) async fn one(node: &Node, pod: &Pod, (id, name): (&str, &str), why: &str, grace: i64) {
    node.events.pod(pod, Some(name), "Normal", "Killing", why);
    let begun = Instant::now();
    let spec = pod.spec.iter().flat_map(facts::all_containers).find(|c| c.name == name);
    if let Some(spec) = spec.filter(|_| grace > 0) {
        pre_stop(node, pod, spec, id, grace).await;
    }
    let used = i64::try_from(begun.elapsed().as_secs()).unwrap_or(i64::MAX);
    let left = if grace == 0 { 0 } else { (grace - used).max(LEAST_GRACE) };
    let request = v1::StopContainerRequest { container_id: id.to_owned(), timeout: left };
    match node.cri.stop_container(request).await {
        Ok(_) => {}
        Err(error) if error.code() == tonic::Code::NotFound => {}
        Err(error) => {
            tracing::warn!(node = node.name, pod = %facts::full_name(pod), container = name, error = describe(&error), "stop container");
            // As above: the caller looks again at once.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Runs the preStop hook, for no longer than the grace period.
async fn pre_stop(node: &Node, pod: &Pod, spec: &Container, id: &str, grace: i64) {
    let Some(hook) = spec.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref()) else { return };
    let limit = Duration::from_secs(grace.max(0).unsigned_abs());
    match tokio::time::timeout(limit, hooks::run(node, pod, spec, id, hook)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            node.events.pod(pod, Some(&spec.name), "Warning", "FailedPreStopHook", &format!("PreStopHook failed: {error}"));
        }
        Err(_) => tracing::info!(pod = %facts::full_name(pod), container = spec.name, "preStop hook used up the grace period"),
    }
}
