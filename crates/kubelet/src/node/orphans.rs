//! Cleaning up what no pod of the API server accounts for: sandboxes, containers, directories.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Node, remove_directory};
use crate::cri::{labels, observed, v1};

/// How often orphans are looked for (upstream's housekeeping does it every two seconds).
const EVERY: Duration = Duration::from_secs(60);
/// Seconds containers get when the whole node goes.
const LAST_GRACE: i64 = 2;

/// Returns once the API server has said which pods belong here: until then everything looks like an orphan.
pub(crate) async fn once_listed(node: &Node) {
    while !node.pods.listed() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Looks for orphans for ever.
pub(crate) async fn run(node: &Arc<Node>) {
    once_listed(node).await;
    loop {
        if let Err(error) = sweep(node).await {
            tracing::warn!(node = node.name, error = crate::cri::describe(&error), "look for orphaned pods");
        }
        if !node.simulated {
            sweep_directories(node).await;
        }
        tokio::time::sleep(EVERY.mul_f64(1.0 + rand::random::<f64>() / 5.0)).await;
    }
}

async fn sweep(node: &Arc<Node>) -> Result<(), tonic::Status> {
    let sandboxes = node.cri.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await?.items;
    let uids: BTreeSet<String> = sandboxes.iter().filter_map(|s| s.labels.get(labels::POD_UID).cloned()).collect();
    for uid in uids.into_iter().filter(|uid| !node.pods.has(uid)) {
        tracing::info!(node = node.name, pod = uid, "remove orphaned pod");
        remove(node, &uid, None).await?;
    }
    Ok(())
}

/// Stops and removes all pods of a node that goes away for good.
pub(crate) async fn remove_all(node: &Arc<Node>) {
    let Ok(listed) = node.cri.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await else { return };
    let uids: BTreeSet<String> = listed.items.iter().filter_map(|s| s.labels.get(labels::POD_UID).cloned()).collect();
    let removals = uids.iter().map(|uid| remove(node, uid, Some(LAST_GRACE)));
    for error in futures::future::join_all(removals).await.into_iter().filter_map(Result::err) {
        tracing::warn!(node = node.name, error = crate::cri::describe(&error), "remove pod");
    }
}

/// Stops and removes one pod, within `grace` seconds or what its containers were made with.
async fn remove(node: &Arc<Node>, uid: &str, grace: Option<i64>) -> Result<(), tonic::Status> {
    let containers = node.cri.list_containers(v1::ListContainersRequest::default()).await?.containers;
    let own = containers.into_iter().filter(|c| c.labels.get(labels::POD_UID).is_some_and(|u| u == uid));
    let stops = own.map(|container| async move {
        let timeout = grace.or_else(|| labels::grace_seconds(&container.annotations)).unwrap_or(30);
        node.cri.stop_container(v1::StopContainerRequest { container_id: container.id, timeout }).await
    });
    futures::future::try_join_all(stops).await?;
    let observed = observed::observe(&*node.cri, uid).await?;
    for sandbox in &observed.sandboxes {
        node.cri.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() }).await?;
    }
    node.remove_from_runtime(&observed).await;
    Ok(())
}

/// Removes directories of pods that are no more.
async fn sweep_directories(node: &Arc<Node>) {
    for name in names(&node.paths.pods()).await.into_iter().filter(|uid| !node.pods.has(uid)) {
        remove_directory(&node.paths.pods().join(name)).await;
    }
    for name in names(node.paths.all_logs()).await {
        // `namespace_name_uid`; anything else is not ours.
        let uid = name.rsplit('_').next().filter(|_| name.matches('_').count() == 2);
        if uid.is_some_and(|uid| !node.pods.has(uid)) {
            remove_directory(&node.paths.all_logs().join(&name)).await;
        }
    }
}

async fn names(directory: &std::path::Path) -> Vec<String> {
    let mut names = vec![];
    let Ok(mut entries) = tokio::fs::read_dir(directory).await else { return names };
    while let Ok(Some(entry)) = entries.next_entry().await {
        names.extend(entry.file_name().into_string());
    }
    names
}
