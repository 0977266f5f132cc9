//! Collecting on a hollow node.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::node::fixture::{fake_api, hollow_node, pod};

/// The `number`-th life of a pod: a sandbox and its container with a log, dead when `over`. Returns the sandbox.
async fn life(node: &Node, pod: &Pod, number: i32, log: &str, over: bool) -> String {
    let config = v1::PodSandboxConfig { labels: labels::sandbox(pod), ..Default::default() };
    let request = v1::RunPodSandboxRequest { config: Some(config), ..Default::default() };
    let sandbox = node.cri.run_pod_sandbox(request).await.unwrap().pod_sandbox_id;
    let config = v1::ContainerConfig {
        labels: labels::container(pod, "main"),
        annotations: labels::annotations(pod, &pod.spec.as_ref().unwrap().containers[0], number),
        log_path: log.to_owned(),
        ..Default::default()
    };
    let request = v1::CreateContainerRequest { pod_sandbox_id: sandbox.clone(), config: Some(config), sandbox_config: None };
    let container_id = node.cri.create_container(request).await.unwrap().container_id;
    node.cri.start_container(v1::StartContainerRequest { container_id }).await.unwrap();
    if over {
        node.cri.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
    }
    sandbox
}

async fn sandboxes(node: &Node) -> Vec<String> {
    let listed = node.cri.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await.unwrap().items;
    listed.into_iter().map(|sandbox| sandbox.id).collect()
}

#[tokio::test]
async fn of_a_pod_begun_anew_three_times_the_last_dead_life_stays() {
    let directory = tempfile::tempdir().unwrap();
    let logs: Vec<_> = (0..4).map(|number| directory.path().join(format!("{number}.log"))).collect();
    let rotated = directory.path().join("0.log.20261130-100000");
    logs.iter().chain([&rotated]).for_each(|log| std::fs::write(log, "said").unwrap());
    let (node, web) = (hollow_node(1, &fake_api().0), pod("web", json!({})));
    let mut lives = vec![];
    for (number, log) in (0..).zip(&logs) {
        lives.push(life(&node, &web, number, &log.display().to_string(), number < 3).await);
    }
    node.pods.set(&node, web);
    collect(&node).await.unwrap();
    assert_eq!(sandboxes(&node).await, lives[2..]);
    let states: Vec<_> =
        containers(&node).await.unwrap().into_iter().map(|container| (container.pod_sandbox_id, container.state)).collect();
    let (exited, running) = (v1::ContainerState::ContainerExited as i32, v1::ContainerState::ContainerRunning as i32);
    assert_eq!(states, [(lives[2].clone(), exited), (lives[3].clone(), running)]);
    let left: Vec<_> = logs.iter().chain([&rotated]).map(|log| log.exists()).collect();
    assert_eq!(left, [false, false, true, true, false]);
    collect(&node).await.unwrap();
    assert_eq!(sandboxes(&node).await, lives[2..], "from then on it is left alone");
}

#[tokio::test]
async fn pods_the_api_server_does_not_know_are_left_to_the_search_for_orphans() {
    let (node, other) = (hollow_node(1, &fake_api().0), pod("other", json!({})));
    let lives = [life(&node, &other, 0, "", true).await, life(&node, &other, 1, "", true).await];
    collect(&node).await.unwrap();
    assert_eq!(sandboxes(&node).await, lives);
}
