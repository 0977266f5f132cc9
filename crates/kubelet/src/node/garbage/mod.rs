//! Garbage of pods that are still there: containers that have died and sandboxes that were replaced.

mod plan;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

pub use plan::GarbagePolicy;

use super::{Node, orphans::once_listed};
use crate::{
    cri::{CriResult, describe, labels, v1},
    logs,
};

/// How often garbage is collected (upstream's `ContainerGCPeriod`).
const EVERY: Duration = Duration::from_secs(60);
/// Seconds that a container gets which may still run, if it was not made with a grace period of its own.
const GRACE: i64 = 30;

/// Collects for ever, once the API server has said which pods belong here.
pub(crate) async fn run(node: &Arc<Node>) {
    once_listed(node).await;
    loop {
        if let Err(error) = collect(node).await {
            tracing::warn!(node = node.name, error = describe(&error), "collect dead containers and sandboxes");
        }
        tokio::time::sleep(EVERY.mul_f64(1.0 + rand::random::<f64>() / 5.0)).await;
    }
}

/// Removes what has to go; what cannot be removed now is tried again the next time.
async fn collect(node: &Node) -> CriResult<()> {
    let lives = |uid: &str| node.pods.has(uid);
    for container in plan::containers(&containers(node).await?, lives, node.settings.garbage, node.now()) {
        if let Err(error) = remove_container(node, container).await {
            tracing::warn!(node = node.name, container = container.id, error = describe(&error), "remove dead container");
        }
    }
    let sandboxes = node.cri.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await?.items;
    for sandbox in plan::sandboxes(&sandboxes, &containers(node).await?, lives) {
        if let Err(error) = remove_sandbox(node, &sandbox.id).await {
            tracing::warn!(node = node.name, sandbox = sandbox.id, error = describe(&error), "remove dead sandbox");
        }
    }
    Ok(())
}

async fn containers(node: &Node) -> CriResult<Vec<v1::Container>> {
    Ok(node.cri.list_containers(v1::ListContainersRequest::default()).await?.containers)
}

/// Removes a container and what it has written.
async fn remove_container(node: &Node, container: &v1::Container) -> CriResult<()> {
    let container_id = container.id.clone();
    if container.state == v1::ContainerState::ContainerUnknown as i32 {
        // It may run.
        let timeout = labels::grace_seconds(&container.annotations).unwrap_or(GRACE);
        node.cri.stop_container(v1::StopContainerRequest { container_id: container_id.clone(), timeout }).await?;
    }
    let request = v1::ContainerStatusRequest { container_id: container_id.clone(), verbose: false };
    let log = node.cri.container_status(request).await?.status.unwrap_or_default().log_path;
    node.cri.remove_container(v1::RemoveContainerRequest { container_id }).await?;
    if !log.is_empty()
        && let Err(error) = logs::rotate::remove(log.as_ref()).await
    {
        tracing::warn!(node = node.name, log, %error, "remove log of a dead container");
    }
    Ok(())
}

/// Stops first: a sandbox that died by itself may still hold its network.
async fn remove_sandbox(node: &Node, id: &str) -> CriResult<()> {
    node.cri.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() }).await?;
    node.cri.remove_pod_sandbox(v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() }).await?;
    Ok(())
}
