//! At most so many requests at a time, reading and writing counted apart.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    loopback::InProcess,
    request::{RequestInfo, UserInfo},
    server::Server,
};

/// Heartbeats and leases at a time, beyond the flags' limits.
const VITAL: usize = 100;
const PROBES: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// A request's place among those in flight; an extension of the request. The place is free when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held, not read")] pub(crate) Arc<OwnedSemaphorePermit>);

/// How much the server takes on.
pub(crate) struct Limits {
    /// `--max-requests-inflight`; `None` = no limit.
    pub(crate) reading: Option<Arc<Semaphore>>,
    /// `--max-mutating-requests-inflight`.
    pub(crate) writing: Option<Arc<Semaphore>>,
    /// Room of their own for heartbeats and leader election, which a storm of other requests must not stop.
    pub(crate) vital: Arc<Semaphore>,
    /// Upper bound of any request that does not run long.
    pub(crate) timeout: Duration,
}

impl Limits {
    /// From the flags; 0 means no limit.
    pub(crate) fn new(reading: usize, writing: usize, timeout: Duration) -> Self {
        let permits = |n: usize| (n > 0).then(|| Arc::new(Semaphore::new(n)));
        Self { reading: permits(reading), writing: permits(writing), vital: Arc::new(Semaphore::new(VITAL)), timeout }
    }
}

pub(super) async fn layer(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let (info, user) = (extensions.get::<RequestInfo>(), extensions.get::<UserInfo>());
    let reads = info.is_some_and(|i| matches!(i.verb, "get" | "list" | "watch"));
    let exempt = info.is_some_and(|i| i.is_long_running() || is_probe(i))
        || extensions.get::<InProcess>().is_some()
        || user.is_some_and(|u| u.in_group("system:masters"));
    let vital = info.zip(user).is_some_and(|(info, user)| is_vital(info, user));
    let limit = if reads { &server.limits.reading } else { &server.limits.writing };
    let Some(limit) = limit.as_ref().filter(|_| !exempt) else { return next.run(request).await };
    let own = if vital { server.limits.vital.clone().try_acquire_owned().ok() } else { None };
    let Some(permit) = own.or_else(|| limit.clone().try_acquire_owned().ok()) else { return too_many() };
    let permit = Permit(Arc::new(permit));
    request.extensions_mut().insert(permit.clone());
    let response = next.run(request).await;
    drop(permit);
    response
}

fn is_probe(info: &RequestInfo) -> bool {
    let below = |root: &str| info.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    !info.is_resource && PROBES.into_iter().any(below)
}

/// Whether the cluster comes to harm when this waits: heartbeats of nodes, leases of nodes and control loops. Upstream: the
/// flow schemas `system-node-high` and `system-leader-election`.
fn is_vital(info: &RequestInfo, user: &UserInfo) -> bool {
    let node = user.in_group("system:nodes");
    let control = user.in_group("system:serviceaccounts:kube-system")
        || matches!(user.name.as_str(), "system:kube-controller-manager" | "system:kube-scheduler");
    match (info.group.as_str(), info.resource.as_str(), info.subresource.as_str()) {
        ("coordination.k8s.io", "leases", "") => (node || control) && matches!(info.verb, "get" | "create" | "update" | "patch"),
        ("", "nodes", "status") => node,
        _ => false,
    }
}

fn too_many() -> Response {
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn vital(method: Method, path: &str, user: &UserInfo) -> bool {
        is_vital(&RequestInfo::parse(&method, path, ""), user)
    }

    #[test]
    fn heartbeats_and_leader_election_have_room_of_their_own() {
        let node = UserInfo::new("system:node:n1", &["system:nodes"]);
        let scheduler = UserInfo::new("system:kube-scheduler", &[]);
        let account = UserInfo::new("system:serviceaccount:a:b", &["system:serviceaccounts"]);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
        assert!(vital(Method::PUT, lease, &node) && vital(Method::PUT, lease, &scheduler));
        assert!(vital(Method::PATCH, "/api/v1/nodes/n1/status", &node));
        assert!(!vital(Method::PUT, lease, &account));
        assert!(!vital(Method::GET, "/api/v1/pods", &node));
    }

    #[test]
    fn probes_are_not_counted() {
        for (path, probe) in [("/readyz", true), ("/livez/ping", true), ("/healthzz", false), ("/api/v1/nodes", false)] {
            assert_eq!(is_probe(&RequestInfo::parse(&Method::GET, path, "")), probe, "{path}");
        }
    }
}
