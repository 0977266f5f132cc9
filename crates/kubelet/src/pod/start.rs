//! Starting: the sandbox, then each container from image to running, with upstream's events.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Container, Pod},
    node::v1::RuntimeClass,
};
use kube::Api;

use super::{create, facts, hooks, kill};
use crate::{
    cri::{CriResult, describe, v1},
    node::Node,
    text,
};

/// Why a container waits: upstream's reason and a message.
#[derive(Debug)]
pub(crate) struct StartError {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl StartError {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Creates the pod's sandbox.
pub(crate) async fn sandbox(node: &Node, pod: &Pod, attempt: u32) -> CriResult<()> {
    let config = create::sandbox_config(node, pod, attempt);
    if !node.simulated
        && let Err(error) = tokio::fs::create_dir_all(&config.log_directory).await
    {
        return Err(tonic::Status::internal(format!("create pod log directory {:?}: {error}", config.log_directory)));
    }
    let runtime_handler = runtime_handler(node, pod).await?;
    let request = v1::RunPodSandboxRequest { config: Some(config), runtime_handler };
    match node.cri.run_pod_sandbox(request).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = format!("Failed to create pod sandbox: {}", describe(&error));
            node.events.pod(pod, None, "Warning", "FailedCreatePodSandBox", &text);
            Err(error)
        }
    }
}

/// The handler of the pod's RuntimeClass; empty for the runtime's default.
async fn runtime_handler(node: &Node, pod: &Pod) -> CriResult<String> {
    let class = pod.spec.as_ref().and_then(|s| s.runtime_class_name.as_deref()).unwrap_or_default();
    if class.is_empty() || node.simulated {
        return Ok(String::new());
    }
    match Api::<RuntimeClass>::all(node.client.clone()).get(class).await {
        Ok(class) => Ok(class.handler),
        Err(error) => {
            let text = format!("failed to get sandbox runtime: {}", text::api_error(&error));
            node.events.pod(pod, None, "Warning", "FailedCreatePodSandBox", &format!("Failed to create pod sandbox: {text}"));
            Err(tonic::Status::unknown(text))
        }
    }
}

/// Starts a container in the pod's newest sandbox.
pub(crate) async fn container(node: &Node, pod: &Pod, spec: &Container, restarts: i32) -> Result<(), StartError> {
    let tell = |kind: &str, reason: &str, message: &str| node.events.pod(pod, Some(&spec.name), kind, reason, message);
    let fail = |error: StartError, text: &str| {
        tell("Warning", "Failed", &format!("Error: {text}"));
        error
    };
    let image = node.images.ensure(node, pod, spec).await.map_err(|error| fail_image(node, pod, spec, error))?;
    let request = create::container_request(node, pod, spec, restarts, image).await.map_err(|error| {
        let text = error.message.clone();
        fail(error, &text)
    })?;
    let id = match node.cri.create_container(request).await {
        Ok(answer) => answer.container_id,
        Err(error) => {
            let text = describe(&error);
            return Err(fail(StartError::new("CreateContainerError", error.message()), &text));
        }
    };
    tell("Normal", "Created", "Container created");
    if let Err(error) = node.cri.start_container(v1::StartContainerRequest { container_id: id.clone() }).await {
        let text = describe(&error);
        return Err(fail(StartError::new("RunContainerError", error.message()), &text));
    }
    tell("Normal", "Started", "Container started");
    post_start(node, pod, spec, &id).await
}

/// An image that is not there; the puller has told its own event, this one names the outcome.
fn fail_image(node: &Node, pod: &Pod, spec: &Container, error: StartError) -> StartError {
    node.events.pod(pod, Some(&spec.name), "Warning", "Failed", &format!("Error: {}", error.reason));
    error
}

/// Runs the postStart hook; a container whose hook fails is stopped.
async fn post_start(node: &Node, pod: &Pod, spec: &Container, id: &str) -> Result<(), StartError> {
    let Some(hook) = spec.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return Ok(()) };
    let limit = Duration::from_secs(600);
    let error = match tokio::time::timeout(limit, hooks::run(node, pod, spec, id, hook)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "did not end within 10 minutes".to_owned(),
    };
    let text = format!("PostStartHook failed: {error}");
    node.events.pod(pod, Some(&spec.name), "Warning", "FailedPostStartHook", &text);
    kill::one(node, pod, (id, &spec.name), "FailedPostStartHook", facts::grace_seconds(pod)).await;
    Err(StartError::new("PostStartHookError", text))
}
