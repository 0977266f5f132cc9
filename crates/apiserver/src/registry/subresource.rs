//! What hangs below an object's path: status, scale, and calls such as binding, token, log or exec.

use std::sync::Arc;

use apimachinery::{Object, gvk::GroupVersionKind, status::Status};
use async_trait::async_trait;
use axum::body::Body;
use http::{Method, StatusCode, request::Parts};

use super::Strategy;
use crate::{loopback::Loopback, request::RequestContext};

/// One subresource of a [`super::Resource`].
#[derive(Clone)]
pub(crate) struct Subresource {
    /// The path segment, e.g. `status`.
    pub(crate) name: &'static str,
    /// Verbs in discovery order.
    pub(crate) verbs: &'static [&'static str],
    /// The kind answered; `None` for the parent's.
    pub(crate) kind: Option<GroupVersionKind>,
    /// What serves it.
    pub(crate) serve: SubresourceKind,
}

/// What serves a subresource.
#[derive(Clone)]
pub(crate) enum SubresourceKind {
    /// The stored object through `prepare_for_status_update`/`validate_status_update`.
    Status,
    /// The stored object through another strategy's update methods (ephemeralcontainers, resize, approval, finalize).
    View(Arc<dyn Strategy>),
    /// `autoscaling/v1 Scale` over these JSON pointers.
    Scale(ScalePaths),
    /// A call with its own answer.
    Call(Arc<dyn Connect>),
}

/// Where a scalable kind keeps what a Scale shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// e.g. `/spec/replicas`.
    pub(crate) spec_replicas: String,
    /// e.g. `/status/replicas`.
    pub(crate) status_replicas: String,
    /// The selector: an object's LabelSelector, a map, or its string form.
    pub(crate) selector: Option<String>,
}

impl Default for ScalePaths {
    fn default() -> Self {
        Self { spec_replicas: "/spec/replicas".into(), status_replicas: "/status/replicas".into(), selector: Some("/spec/selector".into()) }
    }
}

/// A call to a subresource, or to a resource that is not stored.
pub(crate) struct Call {
    /// The HTTP method.
    pub(crate) method: Method,
    /// The query, decoded, in order.
    pub(crate) query: Vec<(String, String)>,
    /// The object's name; empty for unstored resources' collections.
    pub(crate) name: String,
    /// The decoded, defaulted and mutated body of a POST or PUT whose kind has a schema.
    pub(crate) body: Option<Object>,
    /// The request head; `extensions` hold hyper's upgrade handle for streaming calls.
    pub(crate) parts: Parts,
    /// The unread body of `Connect::raw` calls.
    pub(crate) stream: Option<Body>,
}

impl Call {
    /// The first query value of that key.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// What a call answers.
pub(crate) enum Answer {
    /// An object in the negotiated form.
    Object(StatusCode, Object),
    /// Bytes as they are: logs, upgrades, proxied answers.
    Raw(http::Response<Body>),
}

/// Serves a call. Authorization has happened; admission runs around it for POST bodies (create) and streaming calls (connect).
#[async_trait]
pub(crate) trait Connect: Send + Sync {
    /// Fills defaults of a body, before anybody's ownership of its fields is noted.
    fn default(&self, _body: &mut Object) {}

    /// Answers one call.
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status>;

    /// Whether the call reads the request itself (exec, proxy): no decoding, no deadline.
    fn raw(&self) -> bool {
        false
    }
}

const GET_PATCH_UPDATE: &[&str] = &["get", "patch", "update"];

impl Subresource {
    /// `/status`.
    pub(crate) fn status() -> Self {
        Self { name: "status", verbs: GET_PATCH_UPDATE, kind: None, serve: SubresourceKind::Status }
    }

    /// `/scale` with the usual paths.
    pub(crate) fn scale(paths: ScalePaths) -> Self {
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        Self { name: "scale", verbs: GET_PATCH_UPDATE, kind: Some(kind), serve: SubresourceKind::Scale(paths) }
    }

    /// Whether the call passes bytes through, whatever form the client asks for.
    pub(crate) fn is_raw(&self) -> bool {
        matches!(&self.serve, SubresourceKind::Call(connect) if connect.raw())
    }

    /// The object itself under another strategy.
    pub(crate) fn view(name: &'static str, strategy: impl Strategy + 'static) -> Self {
        Self { name, verbs: GET_PATCH_UPDATE, kind: None, serve: SubresourceKind::View(Arc::new(strategy)) }
    }

    /// A door only the server itself uses, through the loopback: without verbs it is not shown in discovery, and
    /// refused to requests from outside.
    pub(crate) fn internal(name: &'static str, strategy: impl Strategy + 'static) -> Self {
        Self { name, verbs: &[], kind: None, serve: SubresourceKind::View(Arc::new(strategy)) }
    }

    /// A call; `kind` is (group, version, kind) of what discovery names.
    pub(crate) fn call(
        name: &'static str,
        verbs: &'static [&'static str],
        (group, version, kind): (&str, &str, &str),
        serve: impl Connect + 'static,
    ) -> Self {
        let kind = Some(GroupVersionKind::new(group, version, kind));
        Self { name, verbs, kind, serve: SubresourceKind::Call(Arc::new(serve)) }
    }
}
