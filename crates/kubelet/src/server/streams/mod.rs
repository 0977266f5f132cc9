//! `/exec`, `/attach`, `/portForward` and `/run`: streams between a client and what runs in a pod.
//!
//! The runtime says where it serves a stream; this server passes the client's connection on to there and does not look into it.

mod options;
mod proxy;
mod relay;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use self::options::{Pairs, Wanted};
use super::Nodes;
use crate::{
    cri::{
        self,
        observed::{self, State as RunState},
        v1,
    },
    node::Node,
    pod::facts,
};

/// When a runtime that has too many open requests may be asked again: they live this long at most.
const RETRY_AFTER: &str = "60";

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) nodes: Nodes,
}

/// The segments of a path.
#[derive(Debug, Deserialize)]
struct Place {
    namespace: String,
    pod: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    container: String,
}

/// An answer that is no stream.
enum Refusal {
    /// Code and text.
    Plain(StatusCode, String),
    /// What the runtime said.
    Runtime(tonic::Status),
    /// The client's connection could not be passed on.
    Proxy(proxy::Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Plain(code, text) => (code, text).into_response(),
            Self::Proxy(error) => error.into_response(),
            Self::Runtime(status) => {
                let text = cri::describe(&status);
                match status.code() {
                    tonic::Code::NotFound => (StatusCode::NOT_FOUND, text).into_response(),
                    tonic::Code::ResourceExhausted => {
                        (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, RETRY_AFTER)], text).into_response()
                    }
                    _ => (StatusCode::INTERNAL_SERVER_ERROR, text).into_response(),
                }
            }
        }
    }
}

impl From<tonic::Status> for Refusal {
    fn from(status: tonic::Status) -> Self {
        Self::Runtime(status)
    }
}

impl From<proxy::Error> for Refusal {
    fn from(error: proxy::Error) -> Self {
        Self::Proxy(error)
    }
}

fn bad_request(text: String) -> Refusal {
    Refusal::Plain(StatusCode::BAD_REQUEST, text)
}

fn not_found(text: &str) -> Refusal {
    Refusal::Plain(StatusCode::NOT_FOUND, text.to_owned())
}

fn internal(text: String) -> Refusal {
    Refusal::Plain(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// The routes, each with and without the pod's UID.
pub(super) fn routes(streams: Streams) -> Router {
    let (exec, attach, forward) = (get(exec).post(exec), get(attach).post(attach), get(port_forward).post(port_forward));
    Router::new()
        .route("/exec/{namespace}/{pod}/{container}", exec.clone())
        .route("/exec/{namespace}/{pod}/{uid}/{container}", exec)
        .route("/attach/{namespace}/{pod}/{container}", attach.clone())
        .route("/attach/{namespace}/{pod}/{uid}/{container}", attach)
        .route("/portForward/{namespace}/{pod}", forward.clone())
        .route("/portForward/{namespace}/{pod}/{uid}", forward)
        .route("/run/{namespace}/{pod}/{container}", post(run))
        .route("/run/{namespace}/{pod}/{uid}/{container}", post(run))
        .with_state(streams)
}

async fn exec(
    State(streams): State<Streams>,
    Path(place): Path<Place>,
    Query(query): Query<Pairs>,
    request: Request,
) -> Result<Response, Refusal> {
    let wanted = Wanted::read(&query).map_err(bad_request)?;
    let (node, pod) = streams.find(&place)?;
    let request_to_runtime = v1::ExecRequest {
        container_id: running(&node, &pod, &place.container).await?,
        cmd: options::command(&query),
        tty: wanted.tty,
        stdin: wanted.stdin,
        stdout: wanted.stdout,
        stderr: wanted.stderr,
    };
    let served_at = node.cri.exec(request_to_runtime).await?.url;
    Ok(proxy::upgrade(request, &served_at).await?)
}

async fn attach(
    State(streams): State<Streams>,
    Path(place): Path<Place>,
    Query(query): Query<Pairs>,
    request: Request,
) -> Result<Response, Refusal> {
    let wanted = Wanted::read(&query).map_err(bad_request)?;
    let (node, pod) = streams.find(&place)?;
    let container_id = running(&node, &pod, &place.container).await?;
    // Whether the container has a terminal was settled when it started.
    let spec = pod.spec.iter().flat_map(facts::all_containers).find(|c| c.name == place.container);
    let tty = spec.and_then(|c| c.tty).unwrap_or(false);
    let request_to_runtime = v1::AttachRequest { container_id, tty, stdin: wanted.stdin, stdout: wanted.stdout, stderr: wanted.stderr };
    let served_at = node.cri.attach(request_to_runtime).await?.url;
    Ok(proxy::upgrade(request, &served_at).await?)
}

async fn port_forward(
    State(streams): State<Streams>,
    Path(place): Path<Place>,
    Query(query): Query<Pairs>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refusal> {
    let port = options::ports(&headers, &query).map_err(bad_request)?;
    let (node, pod) = streams.find(&place)?;
    let observed = observed::observe(&*node.cri, facts::uid(&pod)).await?;
    let sandbox = observed.sandbox().filter(|sandbox| sandbox.ready);
    let full_name = format!("{}_{}", facts::name(&pod), facts::namespace(&pod));
    let sandbox = sandbox.ok_or_else(|| internal(format!("pod not found ({full_name:?})")))?;
    let served_at = node.cri.port_forward(v1::PortForwardRequest { pod_sandbox_id: sandbox.id.clone(), port }).await?.url;
    Ok(proxy::upgrade(request, &served_at).await?)
}

/// Runs a command to its end and answers with its output, stdout before stderr.
async fn run(State(streams): State<Streams>, Path(place): Path<Place>, Query(query): Query<Pairs>) -> Result<Response, Refusal> {
    let (node, pod) = streams.find(&place)?;
    let container_id = running(&node, &pod, &place.container).await?;
    let cmd = options::run_command(&query);
    let answer = node.cri.exec_sync(v1::ExecSyncRequest { container_id, cmd: cmd.clone(), timeout: 0 }).await?;
    if answer.exit_code != 0 {
        let said = String::from_utf8_lossy(&answer.stderr);
        return Err(internal(format!("command '{}' exited with {}: {said}", cmd.join(" "), answer.exit_code)));
    }
    let output = [answer.stdout, answer.stderr].concat();
    Ok(([(header::CONTENT_TYPE, "application/json")], output).into_response())
}

impl Streams {
    fn find(&self, place: &Place) -> Result<(Arc<Node>, Arc<Pod>), Refusal> {
        let found = self.nodes.iter().find_map(|node| Some((node.clone(), node.pods.named(&place.namespace, &place.pod)?)));
        let (node, pod) = found.ok_or_else(|| not_found("pod does not exist"))?;
        if place.uid.is_empty() || place.uid == facts::uid(&pod) { Ok((node, pod)) } else { Err(not_found("pod not found")) }
    }
}

/// The runtime's ID of the pod's running container of that name.
async fn running(node: &Node, pod: &Pod, container: &str) -> Result<String, Refusal> {
    let observed = observed::observe(&*node.cri, facts::uid(pod)).await?;
    let found = observed.newest(container).filter(|c| c.state == RunState::Running);
    found.map(|c| c.id.clone()).ok_or_else(|| internal(format!("container not found ({container:?})")))
}

#[cfg(test)]
mod tests;
