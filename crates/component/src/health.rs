//! `/livez`, `/readyz`, `/healthz` in the form kube-apiserver answers them, and `/metrics`.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use http::{StatusCode, header};
use parking_lot::RwLock;

use crate::metrics;

type Probe = dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// One named check.
#[derive(Clone)]
pub struct Check {
    name: String,
    probe: Arc<Probe>,
}

impl Check {
    /// A check that asks `probe`; an `Err` holds the reason, which is logged and withheld from callers.
    pub fn new<F>(name: impl Into<String>, probe: F) -> Self
    where
        F: Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static,
    {
        Self { name: name.into(), probe: Arc::new(probe) }
    }

    /// The check that always passes.
    pub fn ping() -> Self {
        Self::new("ping", || Box::pin(async { Ok(()) }))
    }
}

/// Which of the three endpoints is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
    /// `/readyz`
    Readyz,
}

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The checks of a process, in the order in which they are shown.
#[derive(Default)]
pub struct Health {
    healthz: RwLock<Vec<Check>>,
    livez: RwLock<Vec<Check>>,
    readyz: RwLock<Vec<Check>>,
}

impl Health {
    /// Without checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to all three endpoints.
    pub fn add(&self, check: Check) {
        self.add_live(check.clone());
        self.add_ready(check);
    }

    /// Adds a check to `/livez` and `/healthz`.
    pub fn add_live(&self, check: Check) {
        self.healthz.write().push(check.clone());
        self.livez.write().push(check);
    }

    /// Adds a check to `/readyz` only.
    pub fn add_ready(&self, check: Check) {
        self.readyz.write().push(check);
    }

    fn checks(&self, endpoint: Endpoint) -> Vec<Check> {
        match endpoint {
            Endpoint::Healthz => &self.healthz,
            Endpoint::Livez => &self.livez,
            Endpoint::Readyz => &self.readyz,
        }
        .read()
        .clone()
    }

    /// The answer to `/<endpoint>?query`: code and text.
    pub async fn answer(&self, endpoint: Endpoint, query: &str) -> (StatusCode, String) {
        let mut excluded: BTreeSet<&str> = values(query, "exclude").collect();
        let verbose = has(query, "verbose");
        let (mut lines, mut failed) = (String::new(), Vec::new());
        for check in self.checks(endpoint) {
            if excluded.remove(check.name.as_str()) {
                lines.push_str(&format!("[+]{} excluded: ok\n", check.name));
            } else if let Err(reason) = (check.probe)().await {
                lines.push_str(&format!("[-]{} failed: reason withheld\n", check.name));
                failed.push(format!("{}: {reason}", check.name));
            } else {
                lines.push_str(&format!("[+]{} ok\n", check.name));
            }
        }
        if !excluded.is_empty() {
            let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(",")));
        }
        let name = endpoint.name();
        if !failed.is_empty() {
            tracing::info!(endpoint = name, failed = failed.join("; "), "health check failed");
            return (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{name} check failed\n"));
        }
        (StatusCode::OK, if verbose { format!("{lines}{name} check passed\n") } else { "ok".to_owned() })
    }

    /// The answer to `/<endpoint>/<check>`; `None` when there is no such check.
    pub async fn answer_one(&self, endpoint: Endpoint, name: &str) -> Option<(StatusCode, String)> {
        let check = self.checks(endpoint).into_iter().find(|check| check.name == name)?;
        Some(match (check.probe)().await {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")),
        })
    }
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn values<'q>(query: &'q str, key: &'static str) -> impl Iterator<Item = &'q str> {
    pairs(query).filter(move |(name, _)| *name == key).map(|(_, value)| value)
}

fn has(query: &str, key: &str) -> bool {
    pairs(query).any(|(name, _)| name == key)
}

/// Routes for the three endpoints and `/metrics`.
pub fn router(health: Arc<Health>, registry: Arc<metrics::Registry>) -> Router {
    let scrape = move || {
        let registry = registry.clone();
        async move { ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], registry.encode()) }
    };
    probes(health).route("/metrics", get(scrape))
}

/// Routes for the three endpoints.
pub fn probes(health: Arc<Health>) -> Router {
    [Endpoint::Healthz, Endpoint::Livez, Endpoint::Readyz]
        .into_iter()
        .fold(Router::new(), |router, endpoint| {
            router
                .route(&format!("/{}", endpoint.name()), get(move |state, query| all(endpoint, state, query)))
                .route(&format!("/{}/{{*check}}", endpoint.name()), get(move |state, path| one(endpoint, state, path)))
        })
        .with_state(health)
}

async fn all(endpoint: Endpoint, State(health): State<Arc<Health>>, RawQuery(query): RawQuery) -> Response {
    plain(health.answer(endpoint, query.as_deref().unwrap_or_default()).await)
}

async fn one(endpoint: Endpoint, State(health): State<Arc<Health>>, Path(check): Path<String>) -> Response {
    match health.answer_one(endpoint, &check).await {
        Some(answer) => plain(answer),
        None => plain((StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
    }
}

fn plain((code, text): (StatusCode, String)) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (code, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        let health = Health::new();
        health.add(Check::ping());
        health.add_ready(Check::new("etcd", || Box::pin(async { Err("no leader".to_owned()) })));
        health
    }

    #[tokio::test]
    async fn passing_checks_answer_ok_or_a_list() {
        assert_eq!(health().answer(Endpoint::Livez, "").await, (StatusCode::OK, "ok".to_owned()));
        assert_eq!(health().answer(Endpoint::Livez, "verbose").await.1, "[+]ping ok\nlivez check passed\n");
    }

    #[tokio::test]
    async fn a_failing_check_is_named_and_its_reason_withheld() {
        let (code, text) = health().answer(Endpoint::Readyz, "").await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(text, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n");
    }

    #[tokio::test]
    async fn excluded_checks_are_not_asked_and_unknown_ones_warned_of() {
        let (code, text) = health().answer(Endpoint::Readyz, "verbose&exclude=etcd&exclude=x").await;
        assert_eq!(code, StatusCode::OK);
        let warning = "warn: some health checks cannot be excluded: no matches for \"x\"\n";
        assert_eq!(text, format!("[+]ping ok\n[+]etcd excluded: ok\n{warning}readyz check passed\n"));
    }

    #[tokio::test]
    async fn one_check_can_be_asked_alone() {
        assert_eq!(health().answer_one(Endpoint::Readyz, "etcd").await.unwrap().0, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(health().answer_one(Endpoint::Livez, "etcd").await.is_none());
    }
}
