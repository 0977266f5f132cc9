//! Registering the node and reporting its status.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ContainerImage, Node as NodeObject, NodeCondition, NodeStatus};
use kube::{
    Api,
    api::{GetParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{
    Node, capacity,
    object::{self, Health, Machine},
};
use crate::cri::v1;

/// First and last wait between tries to register.
const REGISTER_RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(7));
/// Until a starting node is Ready it looks this often, and for this long (upstream: `nodeReadyGracePeriod`).
const STARTING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(120));

/// How long the runtime may leave looks unanswered until it counts as down (upstream's `maxWaitForContainerRuntime`): its
/// restart is no reason to take pods out of service.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);
/// How long one look at the runtime may take; the report must not wait for a runtime that hangs.
const LOOK: Duration = Duration::from_secs(5);

/// What the runtime said of itself, and when.
#[derive(Default)]
struct Runtime {
    answered: Option<Instant>,
    problem: Option<String>,
}

impl Runtime {
    async fn look(&mut self, node: &Node) {
        match timeout(LOOK, node.cri.status(v1::StatusRequest { verbose: false })).await {
            Ok(Ok(answer)) => self.take(&answer, Instant::now()),
            Ok(Err(error)) => tracing::warn!(node = node.name, error = crate::cri::describe(&error), "look at the container runtime"),
            Err(_) => tracing::warn!(node = node.name, "the container runtime does not answer"),
        }
    }

    fn take(&mut self, answer: &v1::StatusResponse, now: Instant) {
        self.answered = Some(now);
        self.problem = runtime_problem(answer);
    }

    /// What keeps pods from running, in upstream's words.
    fn problem(&self, now: Instant) -> Option<String> {
        match self.answered {
            None => Some("container runtime status check may not have completed yet".to_owned()),
            Some(at) if now.duration_since(at) > RUNTIME_PATIENCE => Some("container runtime is down".to_owned()),
            Some(_) => self.problem.clone(),
        }
    }
}

/// Creates the Node object, or takes the existing one over; returns once the API server has it.
pub(crate) async fn register(node: &Node, machine: &Machine) {
    let mut wait = REGISTER_RETRY.0;
    loop {
        match try_register(node, machine).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(node = node.name, error = crate::text::api_error(&error), "register node"),
        }
        tokio::time::sleep(wait.mul_f64(1.0 + rand::random::<f64>() / 10.0)).await;
        wait = (wait * 2).min(REGISTER_RETRY.1);
    }
}

async fn try_register(node: &Node, machine: &Machine) -> kube::Result<()> {
    let api: Api<NodeObject> = Api::all(node.client.clone());
    let wanted = object::object(node, machine, &health(node, &mut Runtime::default()).await);
    let existing = match api.create(&PostParams::default(), &wanted).await {
        Ok(_) => {
            tracing::info!(node = node.name, "registered node");
            node.events.node(&node.name, "Normal", "Starting", "Starting kubelet.");
            return Ok(());
        }
        Err(kube::Error::Api(status)) if status.code == 409 => api.get(&node.name).await?,
        Err(error) => return Err(error),
    };
    let labels = wanted.metadata.labels.unwrap_or_default();
    let current = existing.metadata.labels.unwrap_or_default();
    if labels.iter().any(|(key, value)| current.get(key) != Some(value)) {
        let patch = json!({"metadata": {"labels": labels}});
        api.patch(&node.name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    }
    tracing::info!(node = node.name, "node was registered before");
    node.events.node(&node.name, "Normal", "Starting", "Starting kubelet.");
    Ok(())
}

/// Computes the status every ten seconds, sooner while the node starts; writes it when it changed, and every five minutes in
/// any case.
pub(crate) async fn report(node: &Arc<Node>, machine: &Machine) {
    let mut last: Option<(Instant, NodeStatus)> = None;
    let (began, mut starting) = (Instant::now(), true);
    let mut cidr = String::new();
    let (mut runtime, mut images) = (Runtime::default(), vec![]);
    loop {
        let health = health(node, &mut runtime).await;
        let known = reported(node).await;
        if let Some(object) = &known {
            tell_cidr(node, object, &health, &mut cidr).await;
        }
        let reachable = known.is_some();
        // Not what was written last: the node lifecycle controller may have said Unknown since.
        let old = known.and_then(|n| n.status).and_then(|s| s.conditions).unwrap_or_default();
        images = listed(node).await.unwrap_or(images);
        let status = object::status(node, machine, &health, images.clone(), &old);
        let turned = !same_conditions(&old, status.conditions.as_deref().unwrap_or_default());
        let stale = |(at, known): &(Instant, NodeStatus)| at.elapsed() >= node.settings.status_report || !object::same(known, &status);
        let due = turned || last.as_ref().is_none_or(stale);
        if due {
            match patch(node, &status).await {
                Ok(()) => {
                    tell_turns(node, &old, status.conditions.as_deref().unwrap_or_default());
                    last = Some((Instant::now(), status));
                }
                Err(error) if is_not_found(&error) && node.settings.register => {
                    register(node, machine).await;
                    last = None;
                    continue;
                }
                Err(error) => tracing::warn!(node = node.name, error = crate::text::api_error(&error), "report node status"),
            }
        }
        starting = starting && health.not_ready.is_some() && began.elapsed() < STARTING.1;
        let pause = if starting && reachable { STARTING.0 } else { node.settings.status_update };
        // Jitter keeps the nodes of one process apart.
        tokio::time::sleep(pause.mul_f64(1.0 + rand::random::<f64>() / 25.0)).await;
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API server knows each of the kubelet's conditions as it is.
fn same_conditions(known: &[NodeCondition], wanted: &[NodeCondition]) -> bool {
    wanted.iter().all(|condition| known.iter().any(|c| c.type_ == condition.type_ && c.status == condition.status))
}

async fn reported(node: &Node) -> Option<NodeObject> {
    let api: Api<NodeObject> = Api::all(node.client.clone());
    timeout(node.settings.status_update, api.get_with(&node.name, &GetParams::any())).await.ok()?.ok()
}

async fn patch(node: &Node, status: &NodeStatus) -> kube::Result<()> {
    let api: Api<NodeObject> = Api::all(node.client.clone());
    let mut status = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    // Addresses merge by type: without this a node that moved would keep its old ones.
    if let Some(addresses) = status["addresses"].as_array_mut() {
        addresses.push(json!({"$patch": "replace"}));
    }
    let patch = Patch::Strategic(json!({"status": status}));
    let params = PatchParams::default();
    let written = timeout(node.settings.status_update, api.patch_status(&node.name, &params, &patch)).await;
    written.unwrap_or_else(|late| Err(kube::Error::Service(late.into()))).map(drop)
}

/// Events for conditions that are new or have turned.
fn tell_turns(node: &Node, old: &[NodeCondition], new: &[NodeCondition]) {
    for condition in new {
        let same = old.iter().any(|c| c.type_ == condition.type_ && c.status == condition.status);
        // Of thousands of hollow nodes the events would drown all others.
        if same || node.simulated && condition.type_ != "Ready" {
            continue;
        }
        let what = match (condition.type_.as_str(), condition.status.as_str()) {
            ("Ready", "True") => "NodeReady",
            ("Ready", _) => "NodeNotReady",
            ("MemoryPressure", "True") => "NodeHasInsufficientMemory",
            ("MemoryPressure", _) => "NodeHasSufficientMemory",
            ("DiskPressure", "True") => "NodeHasDiskPressure",
            ("DiskPressure", _) => "NodeHasNoDiskPressure",
            ("PIDPressure", "True") => "NodeHasInsufficientPID",
            _ => "NodeHasSufficientPID",
        };
        node.events.node(&node.name, "Normal", what, &format!("Node {} status is now: {what}", node.name));
    }
}

/// Hands the node's range of pod addresses to the runtime, which may make its network from it; `told` is the last one. A
/// runtime that is not ready may have lost it.
async fn tell_cidr(node: &Node, object: &NodeObject, health: &Health, told: &mut String) {
    let cidr = object.spec.as_ref().and_then(|s| s.pod_cidr.clone()).unwrap_or_default();
    if cidr.is_empty() || cidr == *told && health.not_ready.is_none() {
        return;
    }
    let config = v1::RuntimeConfig { network_config: Some(v1::NetworkConfig { pod_cidr: cidr.clone() }) };
    let request = v1::UpdateRuntimeConfigRequest { runtime_config: Some(config) };
    match timeout(LOOK, node.cri.update_runtime_config(request)).await {
        Ok(Ok(_)) => *told = cidr,
        Ok(Err(error)) => tracing::warn!(node = node.name, error = crate::cri::describe(&error), "tell the runtime its pod CIDR"),
        Err(_) => tracing::warn!(node = node.name, "the container runtime does not take its pod CIDR"),
    }
}

/// The runtime's images, if it answers.
async fn listed(node: &Node) -> Option<Vec<ContainerImage>> {
    let answer = timeout(LOOK, node.cri.list_images(v1::ListImagesRequest::default())).await.ok()?;
    answer.ok().map(|answer| object::images(answer.images))
}

/// Looks at machine and runtime.
async fn health(node: &Node, runtime: &mut Runtime) -> Health {
    runtime.look(node).await;
    let not_ready = runtime.problem(Instant::now());
    if node.simulated {
        return Health { not_ready, ..Default::default() };
    }
    let thresholds = node.settings.thresholds;
    Health {
        memory_pressure: capacity::memory_available().is_some_and(|bytes| bytes < thresholds.memory.of(node.capacity.memory)),
        disk_pressure: capacity::disk_pressure(&node.paths.pods(), thresholds.disk),
        pid_pressure: false,
        not_ready,
    }
}

/// What of the runtime's conditions keeps pods from running, in upstream's words.
fn runtime_problem(answer: &v1::StatusResponse) -> Option<String> {
    let conditions = answer.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let failing = |kind: &str| {
        let condition = conditions.iter().find(|c| c.r#type == kind)?;
        (!condition.status).then(|| format!("{kind}={} reason:{} message:{}", condition.status, condition.reason, condition.message))
    };
    if let Some(text) = failing("RuntimeReady") {
        return Some(format!("container runtime not ready: {text}"));
    }
    failing("NetworkReady").map(|text| format!("container runtime network not ready: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_somebody_else_turned_is_written_again() {
        let ready = |status: &str| NodeCondition { type_: "Ready".into(), status: status.into(), ..Default::default() };
        assert!(same_conditions(&[ready("True")], &[ready("True")]));
        assert!(!same_conditions(&[ready("Unknown")], &[ready("True")]));
        assert!(!same_conditions(&[], &[ready("True")]));
    }

    #[test]
    fn a_runtime_that_restarts_is_not_down() {
        let (mut runtime, now) = (Runtime::default(), Instant::now());
        assert!(runtime.problem(now).is_some(), "nobody knows yet");
        runtime.take(&v1::StatusResponse::default(), now);
        assert_eq!(runtime.problem(now + Duration::from_secs(30)), None);
        assert_eq!(runtime.problem(now + Duration::from_secs(31)).as_deref(), Some("container runtime is down"));
        runtime.take(&v1::StatusResponse::default(), now + Duration::from_secs(60));
        assert_eq!(runtime.problem(now + Duration::from_secs(61)), None);
    }

    #[test]
    fn a_missing_network_keeps_the_node_from_being_ready() {
        let condition = |kind: &str, status: bool| v1::RuntimeCondition {
            r#type: kind.into(),
            status,
            reason: "NetworkPluginNotReady".into(),
            message: "cni config uninitialized".into(),
        };
        let answer = |network| v1::StatusResponse {
            status: Some(v1::RuntimeStatus { conditions: vec![condition("RuntimeReady", true), condition("NetworkReady", network)] }),
            ..Default::default()
        };
        assert_eq!(runtime_problem(&answer(true)), None);
        let text = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni config uninitialized";
        assert_eq!(runtime_problem(&answer(false)).as_deref(), Some(text));
    }
}
