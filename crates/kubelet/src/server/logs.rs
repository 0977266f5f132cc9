//! `/containerLogs/{namespace}/{pod}/{container}`.

use std::{path::PathBuf, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Nodes;
use crate::{
    cri::{
        observed::{self, Container, Observed, State as RunState},
        v1,
    },
    logs::{options, read},
    node::Node,
    pod::facts,
};

/// Chunks read ahead of a slow client.
const AHEAD: usize = 16;

/// An answer that is no log: code and text.
type Refusal = (StatusCode, String);

/// Serves a container's log.
pub(super) async fn container(
    State(nodes): State<Nodes>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(query): Query<options::Query>,
) -> Response {
    match serve(&nodes, &namespace, &pod, &container, query).await {
        Ok(body) => ([(header::CONTENT_TYPE, "text/plain")], body).into_response(),
        Err((code, text)) => (code, text).into_response(),
    }
}

async fn serve(nodes: &Nodes, namespace: &str, name: &str, container: &str, query: options::Query) -> Result<Body, Refusal> {
    let found = nodes.iter().find_map(|node| Some((node, node.pods.named(namespace, name)?)));
    let Some((node, pod)) = found else { return Err((StatusCode::NOT_FOUND, format!("pod {name:?} does not exist"))) };
    let options = query.options(node.now()).map_err(|text| (StatusCode::UNPROCESSABLE_ENTITY, text))?;
    let known = pod.spec.iter().flat_map(facts::all_containers).any(|c| c.name == container);
    if !known {
        return Err((StatusCode::NOT_FOUND, format!("container {container:?} not found in pod {name:?}")));
    }
    let observed = observed::observe(&*node.cri, facts::uid(&pod)).await;
    let observed = observed.map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, crate::cri::describe(&e)))?;
    let seen = choose(node, &pod, &observed, container, options.previous).map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    if node.simulated {
        return Ok(Body::empty());
    }
    let path = PathBuf::from(&seen.log_path);
    if !tokio::fs::try_exists(&path).await.unwrap_or(false) {
        let text = format!("failed to try resolving symlinks in path {path:?}: lstat {}: no such file or directory", path.display());
        return Err((StatusCode::INTERNAL_SERVER_ERROR, text));
    }
    let (sink, source) = mpsc::channel(AHEAD);
    let (node, id) = (node.clone(), seen.id.clone());
    tokio::spawn(read::stream(path, options, sink, move || is_running(node.clone(), id.clone())));
    Ok(Body::from_stream(ReceiverStream::new(source)))
}

async fn is_running(node: Arc<Node>, id: String) -> bool {
    let answer = node.cri.container_status(v1::ContainerStatusRequest { container_id: id, verbose: false }).await;
    let running = v1::ContainerState::ContainerRunning as i32;
    answer.is_ok_and(|a| a.status.is_some_and(|s| s.state == running))
}

/// The container whose log is meant, or why there is none, in upstream's words.
fn choose<'a>(node: &Node, pod: &Pod, observed: &'a Observed, name: &str, previous: bool) -> Result<&'a Container, String> {
    let pod_name = facts::name(pod);
    let mut history = observed.containers.iter().filter(|c| c.name == name);
    if previous {
        let newest = history.next();
        // Between two runs the newest has ended, and is the previous one already.
        let ended =
            newest.filter(|c| c.state == RunState::Exited && node.statuses.written(facts::uid(pod)).is_some_and(|s| waits(&s, name)));
        return ended.or(history.next()).ok_or_else(|| format!("previous terminated container {name:?} in pod {pod_name:?} not found"));
    }
    match history.next() {
        Some(container) if container.state != RunState::Created => Ok(container),
        _ => {
            let status = node.statuses.written(facts::uid(pod));
            let reason = status.as_deref().and_then(|s| waiting_reason(s, name)).unwrap_or_else(|| "ContainerCreating".into());
            let why = match reason.as_str() {
                "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                    format!("container {name:?} in pod {pod_name:?} is waiting to start: trying and failing to pull image")
                }
                reason => format!("container {name:?} in pod {pod_name:?} is waiting to start: {reason}"),
            };
            Err(why)
        }
    }
}

fn waiting_reason(status: &k8s_openapi::api::core::v1::PodStatus, name: &str) -> Option<String> {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let found = lists.into_iter().flatten().flatten().find(|c| c.name == name)?;
    found.state.as_ref()?.waiting.as_ref()?.reason.clone()
}

fn waits(status: &k8s_openapi::api::core::v1::PodStatus, name: &str) -> bool {
    waiting_reason(status, name).is_some()
}
