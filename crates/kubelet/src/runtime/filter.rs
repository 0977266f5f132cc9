//! CRI list filters and list items, for runtimes that keep statuses in memory.

use std::collections::HashMap;

use crate::cri::v1;

fn labels_match(selector: &HashMap<String, String>, labels: &HashMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

pub(super) fn sandbox(request: &v1::ListPodSandboxRequest, status: &v1::PodSandboxStatus) -> bool {
    let Some(filter) = request.filter.as_ref() else { return true };
    (filter.id.is_empty() || filter.id == status.id)
        && filter.state.as_ref().is_none_or(|state| state.state == status.state)
        && labels_match(&filter.label_selector, &status.labels)
}

pub(super) fn container(request: &v1::ListContainersRequest, status: &v1::ContainerStatus, sandbox_id: &str) -> bool {
    let Some(filter) = request.filter.as_ref() else { return true };
    (filter.id.is_empty() || filter.id == status.id)
        && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == sandbox_id)
        && filter.state.as_ref().is_none_or(|state| state.state == status.state)
        && labels_match(&filter.label_selector, &status.labels)
}

pub(super) fn sandbox_item(status: &v1::PodSandboxStatus) -> v1::PodSandbox {
    v1::PodSandbox {
        id: status.id.clone(),
        metadata: status.metadata.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
        runtime_handler: status.runtime_handler.clone(),
    }
}

pub(super) fn container_item(status: &v1::ContainerStatus, sandbox_id: &str) -> v1::Container {
    v1::Container {
        id: status.id.clone(),
        pod_sandbox_id: sandbox_id.to_owned(),
        metadata: status.metadata.clone(),
        image: status.image.clone(),
        image_ref: status.image_ref.clone(),
        state: status.state,
        created_at: status.created_at,
        labels: status.labels.clone(),
        annotations: status.annotations.clone(),
        ..Default::default()
    }
}
