//! The server's state and its tower service: pipeline around handlers.

use std::{sync::Arc, time::Duration};

use axum::Router;
use component::clock::Clock;
use serde_json::Value;

use crate::{
    aggregator::Aggregator,
    authn::{Authenticator, front_proxy::Claims},
    authz::Authorizer,
    handlers,
    lifecycle::Lifecycle,
    loopback::{Loopback, Service},
    pipeline::{self, Limits, Metrics},
    registry::store::Hub,
};

/// When a request arrived; an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedAt(pub(crate) jiff::Timestamp);

/// What the service account issuer publishes.
pub(crate) struct IssuerDocuments {
    /// `/.well-known/openid-configuration`
    pub(crate) configuration: Value,
    /// `/openid/v1/jwks`
    pub(crate) jwks: Value,
}

/// Everything a request may need.
pub(crate) struct Server {
    /// Resources, admission, storage.
    pub(crate) hub: Arc<Hub>,
    /// API servers behind this one.
    pub(crate) aggregator: Arc<Aggregator>,
    /// Who is it?
    pub(crate) authenticator: Arc<dyn Authenticator>,
    /// Headers that only front proxies may send, and none beyond this server.
    pub(crate) claims: Claims,
    /// `--anonymous-auth`.
    pub(crate) anonymous: bool,
    /// May they?
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// What the access layer counts.
    pub(crate) metrics: Metrics,
    /// Requests at a time, times.
    pub(crate) limits: Limits,
    /// `/healthz`, `/livez`, `/readyz`, `/metrics`.
    pub(crate) probes: Router,
    /// The names of the probes' checks, for `/`.
    pub(crate) checks: Vec<String>,
    /// `--min-request-timeout`: how long a watch lasts at least.
    pub(crate) min_request_timeout: Duration,
    /// `HOST:PORT` clients are told to use.
    pub(crate) advertised: String,
    /// Present where tokens are issued.
    pub(crate) issuer_documents: Option<IssuerDocuments>,
    /// OpenAPI documents built so far.
    pub(crate) documents: handlers::openapi::Documents,
    /// `--cors-allowed-origins`.
    pub(crate) cors: Vec<regex::Regex>,
    /// Whether CBOR is spoken.
    pub(crate) cbor: bool,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// How it stops.
    pub(crate) lifecycle: Arc<Lifecycle>,
}

impl Server {
    /// The paths of single checks.
    pub(crate) fn probe_paths(&self) -> Vec<String> {
        let roots = ["/healthz", "/livez", "/readyz"];
        let each = |root: &str| self.checks.iter().map(move |c| format!("{root}/{c}")).collect::<Vec<_>>();
        roots.iter().flat_map(|r| std::iter::once((*r).to_owned()).chain(each(r))).collect()
    }
}

/// The whole server as one service; also connects `loopback` to it.
pub(crate) fn service(server: Arc<Server>, loopback: &Loopback) -> Service {
    let handlers = Router::new().fallback(handlers::dispatch).with_state(server.clone());
    let service = Service::new(pipeline::around(handlers, server));
    loopback.connect(service.clone());
    service
}
