//! What the built-in resources need from the rest of the server: address ranges, identity, authorization, kubelets.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use apimachinery::status::Status;
use async_trait::async_trait;
use ipnet::IpNet;
use serde_json::Value;

use super::Streams;
use crate::{authn, authz::Authorizer, request::UserInfo};

/// Handed to every group's table when the server starts.
#[derive(Clone)]
pub(crate) struct Wiring {
    /// `--service-cluster-ip-range`: one range a family, the primary one first.
    pub(crate) service_ranges: Vec<IpNet>,
    /// `--service-node-port-range`.
    pub(crate) node_ports: RangeInclusive<u16>,
    /// `--allow-privileged`.
    pub(crate) allow_privileged: bool,
    /// `--event-ttl`.
    pub(crate) event_ttl: Duration,
    /// Decides access reviews.
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    /// Lists what a user may do, for `selfsubjectrulesreviews`.
    pub(crate) rules: Option<Arc<dyn RuleResolver>>,
    /// Signs service account tokens.
    pub(crate) issuer: Option<Arc<dyn TokenIssuer>>,
    /// Checks tokens for `tokenreviews`.
    pub(crate) reviewer: Option<Arc<dyn TokenReviewer>>,
    /// Whether the server listens on a loopback address only: then pods and services may have loopback addresses too.
    pub(crate) local: bool,
    /// Reaches kubelets for logs and streams.
    pub(crate) kubelet: Option<Arc<dyn Kubelet>>,
    /// Streams that outlive their request's answer.
    pub(crate) streams: Streams,
}

impl Default for Wiring {
    fn default() -> Self {
        Self {
            service_ranges: Vec::new(),
            node_ports: 30000..=32767,
            allow_privileged: false,
            event_ttl: Duration::from_secs(3600),
            authorizer: None,
            rules: None,
            issuer: None,
            reviewer: None,
            local: false,
            kubelet: None,
            streams: Streams::default(),
        }
    }
}

/// The rules of a user in a namespace.
#[async_trait]
pub(crate) trait RuleResolver: Send + Sync {
    /// `status` of a SelfSubjectRulesReview: resourceRules, nonResourceRules, incomplete, evaluationError.
    async fn rules(&self, user: &UserInfo, namespace: &str) -> Value;
}

/// Signs service account tokens.
pub(crate) trait TokenIssuer: Send + Sync {
    /// The issuer, the `iss` claim.
    fn issuer(&self) -> &str;
    /// Audiences of a token that asks for none.
    fn audiences(&self) -> &[String];
    /// The longest lifetime granted, in seconds; longer wishes are cut.
    fn max_seconds(&self) -> i64;
    /// A JWT over these claims.
    fn sign(&self, claims: &Value) -> Result<String, Status>;
}

/// Checks bearer tokens.
#[async_trait]
pub(crate) trait TokenReviewer: Send + Sync {
    /// The user of a token and the audiences it is good for out of `audiences` (empty: the server's own).
    async fn review(&self, token: &str, audiences: &[String]) -> Result<(UserInfo, Vec<String>), authn::Error>;
}

/// Speaks HTTPS to kubelets with the server's client certificate.
#[async_trait]
pub(crate) trait Kubelet: Send + Sync {
    /// GET `https://host:port/path_and_query`; the body streams.
    async fn get(&self, host: &str, port: u16, path_and_query: &str) -> Result<http::Response<axum::body::Body>, Status>;

    /// Sends a request whose URI is a path with query; an answer that switches protocols can be upgraded. Errors: why the kubelet
    /// cannot be reached.
    async fn send(
        &self,
        host: &str,
        port: u16,
        request: http::Request<axum::body::Body>,
    ) -> Result<http::Response<axum::body::Body>, String>;

    /// Types of node addresses to reach kubelets by, in order of preference.
    fn address_types(&self) -> &[String];
}
