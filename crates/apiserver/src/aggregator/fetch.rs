//! Asks API servers behind this one, in its own name: whether they answer, and what they serve.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::documents::{self, Library, Spec};
use super::headers;
use super::network::Network;
use super::service::{ApiService, Backend};
use super::transport::{Transport, Trust};
use crate::openapi;
use crate::request::{PRIVILEGED_GROUP, UserInfo};

/// An answer about what is served may take this long, and be this large.
const DISCOVERY: (Duration, usize) = (Duration::from_secs(5), 4 << 20);
/// OpenAPI documents are larger.
const OPENAPI: (Duration, usize) = (Duration::from_secs(10), 32 << 20);
/// So many endpoints are tried at once: one that answers is enough.
const ATTEMPTS: usize = 5;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// The answer to a question.
struct Answer {
    code: StatusCode,
    headers: HeaderMap,
    body: Value,
}

/// Asks one backend.
pub(super) struct Asker<'a> {
    pub(super) network: &'a Network,
    pub(super) transport: &'a Transport,
    pub(super) service: &'a ApiService,
    pub(super) backend: &'a Backend,
}

impl Asker<'_> {
    /// Whether anybody answers as such a server must. Errors: what is wrong, as the condition's message tells it.
    pub(super) async fn reach(&self) -> Result<(), String> {
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| self.attempt()).collect();
        let mut last = Err(String::new());
        while let Some(outcome) = attempts.next().await {
            last = outcome;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn attempt(&self) -> Result<(), String> {
        let address = self.network.resolve(self.backend)?;
        let url = format!("https://{address}{}", self.service.path());
        let request = question(&self.service.path(), "application/json", None)?;
        // Whoever answers learns nothing and tells nothing: requests of clients are handed on to those only whom the certificate proves.
        let name = self.backend.host_name();
        let sent = self.transport.send(&address, &name, Trust::Anybody, request);
        let failing = |error: String| format!("failing or missing response from {url}: {error}");
        match tokio::time::timeout(DISCOVERY.0, sent).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(failing(format!("bad status from {url}: {}", response.status().as_u16()))),
            Ok(Err(error)) => Err(failing(format!("Get \"{url}\": {error}"))),
            Err(_) => Err(failing(format!("Get \"{url}\": context deadline exceeded"))),
        }
    }

    /// What the server says that it serves.
    pub(super) async fn discover(&self) -> Result<Value, String> {
        let all = self.ask("/apis", AGGREGATED, None, DISCOVERY).await?;
        let content_type = all.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if all.code == StatusCode::OK && content_type.contains("as=APIGroupDiscoveryList") {
            let entry = documents::entry(&all.body, self.service);
            // There is an APIService for it, so it is shown, if with nothing in it.
            return Ok(entry.unwrap_or_else(|| serde_json::json!({"version": self.service.version})));
        }
        let path = self.service.path();
        let old = self.ask(&path, "application/json", None, DISCOVERY).await?;
        let entry = if old.code == StatusCode::OK { documents::entry_of_resources(&old.body, self.service) } else { None };
        entry.ok_or_else(|| format!("failed to download discovery for {path}: {}", old.code))
    }

    /// Fetches the server's OpenAPI documents.
    pub(super) async fn fetch_openapi(&self, library: &Library) -> Result<(), String> {
        let name = self.service.name();
        let index = self.ask("/openapi/v3", "application/json", None, OPENAPI).await?;
        let entries = if index.code == StatusCode::OK { documents::index_entries(&index.body, self.service) } else { Vec::new() };
        library.set_index(name, entries);
        let spec = self.ask("/openapi/v2", "application/json", library.etag(name), OPENAPI).await?;
        if spec.code == StatusCode::OK {
            let etag = spec.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
            let part = openapi::foreign::part(&spec.body, &self.service.path());
            let hash = Sha256::digest(part.to_string()).iter().map(|byte| format!("{byte:02X}")).collect();
            library.set_spec(name, Spec { etag, hash, part });
        }
        Ok(())
    }

    async fn ask(&self, path: &str, accept: &str, known: Option<String>, limits: (Duration, usize)) -> Result<Answer, String> {
        let address = self.network.resolve(self.backend)?;
        let request = question(path, accept, known)?;
        let (patience, size) = limits;
        let asking = async {
            let trust = Trust::Backend(self.backend);
            let (parts, body) = self.transport.send(&address, &self.backend.host_name(), trust, request).await?.into_parts();
            let bytes = Limited::new(body, size).collect().await.map_err(|error| error.to_string())?.to_bytes();
            // What is no JSON is no answer to any of the questions, but its code may be one.
            Ok(Answer { code: parts.status, headers: parts.headers, body: serde_json::from_slice(&bytes).unwrap_or_default() })
        };
        tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| Err(format!("{path}: no answer within {patience:?}")))
    }
}

/// A question in the aggregator's own name.
fn question(path: &str, accept: &str, known: Option<String>) -> Result<Request<Body>, String> {
    let mut request = Request::get(path).header(header::ACCEPT, accept).header(header::USER_AGENT, "kube-aggregator");
    if let Some(known) = known.filter(|known| !known.is_empty()) {
        request = request.header(header::IF_NONE_MATCH, known);
    }
    let mut request = request.body(Body::empty()).map_err(|error| error.to_string())?;
    let user = UserInfo::new("system:kube-aggregator", &[PRIVILEGED_GROUP]);
    headers::identify(request.headers_mut(), &user).map_err(|status| status.message)?;
    Ok(request)
}
