//! `pods/exec`, `pods/attach`, `pods/portforward`: streams to the kubelet of the pod's node.
//!
//! SPDY goes through as it is. A WebSocket is taken here, because runtimes cannot be told over one that stdin has ended: its
//! channels become SPDY streams, a tunnel's content becomes the connection itself.

#[cfg(test)]
mod tests;
mod translate;
mod tunnel;

use std::{sync::Arc, time::Duration};

use apimachinery::{Object, gvk::GroupResource, status::Status};
use async_trait::async_trait;
use axum::body::Body;
use http::{Request, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use streaming::websocket::{is_upgrade, is_websocket};

use super::log::{address, container};
use crate::{
    authz::{Attributes, Authorizer, Decision},
    loopback::Loopback,
    registry::{Answer, Call, Connect, Kubelet, Streams, core::forward},
    request::{RequestContext, RequestInfo, is_true},
};

/// A kubelet may take this long to answer. It asks its runtime first.
const ANSWER: Duration = Duration::from_secs(60);

/// Which stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command in a container.
    Exec,
    /// A container's own process.
    Attach,
    /// Ports of the pod.
    PortForward,
}

/// Serves one kind of stream.
pub(crate) struct Stream {
    /// Which.
    pub(crate) kind: Kind,
    /// Reaches kubelets; without it streams are unavailable.
    pub(crate) kubelet: Option<Arc<dyn Kubelet>>,
    /// Asked whether the user may `create` a stream that a WebSocket's GET asks for.
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    /// Those that run.
    pub(crate) streams: Streams,
}

/// Where a kubelet serves a stream.
struct Target {
    kubelet: Arc<dyn Kubelet>,
    host: String,
    port: u16,
    path: String,
    /// How long its answer is waited for.
    patience: Duration,
}

/// Query parameters that say yes or no, and what the kubelet calls them.
const FLAGS: [(&str, &str); 4] = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

#[async_trait]
impl Connect for Stream {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, mut call: Call) -> Result<Answer, Status> {
        self.may_create(ctx).await?;
        let target = self.target(ctx, api, &mut call).await?;
        let headers = &call.parts.headers;
        if !is_upgrade(headers) {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let response = match self.kind {
            Kind::PortForward if tunnel::is_asked_for(headers) => tunnel::open(&mut call, &target, &self.streams).await?,
            Kind::Exec | Kind::Attach if is_websocket(headers) => {
                self.streams.count_websocket(&ctx.info.subresource, "translated_at_apiserver");
                translate::open(&mut call, target, &self.streams)
            }
            _ => {
                if is_websocket(headers) {
                    self.streams.count_websocket(&ctx.info.subresource, "proxied_to_kubelet");
                }
                let request = forward::request(&mut call, &target.path)?;
                forward::answer(&mut call.parts, target.send(request).await.map_err(unreachable)?, &self.streams)
            }
        };
        Ok(Answer::Raw(response))
    }

    fn raw(&self) -> bool {
        true
    }
}

impl Stream {
    /// Whoever asks with SPDY's POST was authorized for `create`, with a WebSocket's GET for `get` only.
    async fn may_create(&self, ctx: &RequestContext) -> Result<(), Status> {
        if ctx.verb() == "create" {
            return Ok(());
        }
        let authorizer = self.authorizer.as_ref().ok_or_else(|| Status::internal("no authorizer available"))?;
        let info = RequestInfo { verb: "create", ..ctx.info.clone() };
        match authorizer.authorize(&Attributes { user: &ctx.user, info: &info }).await {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                Err(Status::forbidden(&GroupResource::new(&info.group, &info.resource), &info.name, reason))
            }
        }
    }

    async fn target(&self, ctx: &RequestContext, api: &Loopback, call: &mut Call) -> Result<Target, Status> {
        let pod = api.namespaced("v1", "pods", ctx.namespace()).get(&call.name).await?;
        let path = self.path(ctx.namespace(), &pod, call)?;
        let node = pod.str_at("/spec/nodeName");
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", pod.name())));
        }
        let kubelet = self.kubelet.clone().ok_or_else(|| Status::service_unavailable("no kubelet client is configured"))?;
        let (host, port) = address(&api.api("v1", "nodes").get(node).await?, kubelet.address_types())?;
        Ok(Target { kubelet, host, port, path, patience: ANSWER })
    }

    /// Where the kubelet serves it.
    fn path(&self, namespace: &str, pod: &Object, call: &Call) -> Result<String, Status> {
        let name = pod.name();
        let base = match self.kind {
            Kind::PortForward => format!("/portForward/{namespace}/{name}"),
            kind => {
                let verb = if kind == Kind::Exec { "exec" } else { "attach" };
                format!("/{verb}/{namespace}/{name}/{}", container(pod, call.query("container").unwrap_or_default())?)
            }
        };
        Ok(base + &query(call))
    }
}

impl Target {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, String> {
        let sent = tokio::time::timeout(self.patience, self.kubelet.send(&self.host, self.port, request)).await;
        sent.unwrap_or_else(|_| Err("timeout awaiting response headers".into()))
    }

    fn url(&self) -> String {
        format!("https://{}:{}{}", self.host, self.port, self.path)
    }
}

/// A kubelet that cannot be asked, in upstream's words.
fn unreachable(error: String) -> Status {
    Status::failure(500, "", format!("error dialing backend: {error}"))
}

/// Whether a flag is given and not false.
fn flag(call: &Call, name: &str) -> bool {
    call.query(name).is_some_and(is_true)
}

fn query(call: &Call) -> String {
    let encode = |value: &str| utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let all = |key: &'static str| call.query.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str());
    let mut pairs: Vec<String> = all("command").map(|word| format!("command={}", encode(word))).collect();
    pairs.extend(FLAGS.iter().filter(|(ours, _)| flag(call, ours)).map(|(_, theirs)| format!("{theirs}=1")));
    let ports: Vec<&str> = all("ports").collect();
    if !ports.is_empty() {
        pairs.push(format!("port={}", encode(&ports.join(","))));
    }
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}
