//! What is counted of requests, under kube-apiserver's names.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use crate::request::RequestInfo;

/// Upper bounds of `apiserver_request_duration_seconds`, in seconds.
const BUCKETS: [f64; 22] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

/// Counters of the access layer.
#[derive(Clone)]
pub(crate) struct Metrics {
    requests: Family<Outcome, Counter>,
    durations: Family<Target, Histogram, fn() -> Histogram>,
    long_running: Family<Target, Gauge>,
    in_flight: Family<RequestKind, Gauge>,
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &component::metrics::Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            long_running: Family::default(),
            in_flight: Family::default(),
        };
        registry.register("apiserver_request", "Requests by verb, resource and HTTP response code", metrics.requests.clone());
        registry.register("apiserver_request_duration_seconds", "Response latency in seconds", metrics.durations.clone());
        registry.register("apiserver_longrunning_requests", "Active long-running requests", metrics.long_running.clone());
        registry.register("apiserver_current_inflight_requests", "Requests being served, by kind", metrics.in_flight.clone());
        metrics
    }

    /// Counts a request as being served until the guard goes.
    pub(crate) fn begin(&self, info: &RequestInfo, dry_run: bool) -> InFlight {
        let target = target(info, dry_run);
        let gauge = if info.is_long_running() {
            (*self.long_running.get_or_create(&target)).clone()
        } else {
            let kind = if matches!(info.verb, "get" | "list" | "watch") { "readOnly" } else { "mutating" };
            (*self.in_flight.get_or_create(&RequestKind { request_kind: kind })).clone()
        };
        gauge.inc();
        InFlight { gauge, target }
    }

    /// Counts an answered request.
    pub(crate) fn end(&self, guard: &InFlight, code: u16, took: Duration) {
        let Target { verb, dry_run, group, version, resource, subresource, scope, component } = guard.target.clone();
        let outcome = Outcome { verb, dry_run, group, version, resource, subresource, scope, component, code };
        self.requests.get_or_create(&outcome).inc();
        self.durations.get_or_create(&guard.target).observe(took.as_secs_f64());
    }
}

/// One request being served.
pub(crate) struct InFlight {
    gauge: Gauge,
    target: Target,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

fn target(info: &RequestInfo, dry_run: bool) -> Target {
    let scope = match info {
        i if !i.is_resource => "",
        i if !i.is_collection && !i.name.is_empty() || i.verb == "create" => "resource",
        i if !i.namespace.is_empty() => "namespace",
        _ => "cluster",
    };
    Target {
        verb: verb(info),
        dry_run: if dry_run { "All" } else { "" },
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
        subresource: if info.is_resource { info.subresource.clone() } else { known_path(&info.path) },
        scope,
        component: "apiserver",
    }
}

/// Health paths keep their name; anything else would make a label of every typing error.
fn known_path(path: &str) -> String {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let known = ["healthz", "livez", "readyz", "metrics", "version", "openapi", "api", "apis"];
    if known.contains(&first) { format!("/{first}") } else { String::new() }
}

fn verb(info: &RequestInfo) -> &'static str {
    match info.verb {
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "list" => "LIST",
        "watch" => "WATCH",
        "get" => "GET",
        _ => "other",
    }
}
