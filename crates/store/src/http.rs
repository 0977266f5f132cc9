//! `/health`, `/livez`, `/readyz`, `/version` and `/metrics`, as etcd answers them.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Query, Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use component::metrics::{CONTENT_TYPE, Registry};
use http::{StatusCode, header};

use crate::{
    apply::alarm::Alarms,
    command::AlarmKind,
    config::{ETCD_CLUSTER_VERSION, ETCD_VERSION},
    metrics::Metrics,
    raft::RaftNode,
    refusal::Refusal,
};

/// One check of `/livez` or `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

const LIVE: [Check; 1] = [Check::SerializableRead];
const READY: [Check; 4] = [Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead, Check::NonLearner];

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::DataCorruption => "data_corruption",
            Self::SerializableRead => "serializable_read",
            Self::LinearizableRead => "linearizable_read",
            Self::NonLearner => "non_learner",
        }
    }

    async fn ask(self, node: &RaftNode) -> Result<(), String> {
        match self {
            Self::DataCorruption if alarms(node)?.corrupt() => Err("alarm activated: CORRUPT".into()),
            Self::DataCorruption | Self::SerializableRead => alarms(node).map(drop),
            Self::LinearizableRead if node.leader().is_none() => Err(Refusal::NoLeader.text().into()),
            Self::LinearizableRead => node.read_barrier().await.map_err(|refusal| refusal.text().to_owned()),
            Self::NonLearner if node.progress().learner => Err("not supported for learner".into()),
            Self::NonLearner => Ok(()),
        }
    }
}

/// Reads the alarms, which shows that local reads work.
fn alarms(node: &RaftNode) -> Result<Alarms, String> {
    let alarms = node.state().read(|read, _| Alarms::read(read)).and_then(|alarms| alarms);
    alarms.map_err(|error| error.to_string())
}

/// The routes.
pub(crate) fn router(node: RaftNode, registry: Arc<Registry>) -> Router {
    let scrape = move || {
        let registry = registry.clone();
        async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], registry.encode()) }
    };
    let mut router = Router::new().route("/health", get(health));
    for (path, checks) in [("livez", &LIVE[..]), ("readyz", &READY[..])] {
        let all = move |node, query| checked(path, checks, node, query);
        router = router.route(&format!("/{path}"), get(all));
        for check in checks {
            // Asked for by name, a check cannot be left out.
            let one = move |node, Query(mut query): Query<Vec<(String, String)>>| {
                query.retain(|(name, _)| name != "exclude");
                checked(path, std::slice::from_ref(check), node, Query(query))
            };
            router = router.route(&format!("/{path}/{}", check.name()), get(one));
        }
    }
    router.with_state(node).route("/version", get(version)).route("/metrics", get(scrape))
}

async fn version() -> impl IntoResponse {
    let text = format!(r#"{{"etcdserver":"{ETCD_VERSION}","etcdcluster":"{ETCD_CLUSTER_VERSION}","storage":"{ETCD_CLUSTER_VERSION}"}}"#);
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// `/health?serializable=true&exclude=NOSPACE`.
async fn health(State(node): State<RaftNode>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let serializable = query.iter().any(|(name, value)| name == "serializable" && value == "true");
    let excluded: Vec<_> = query.iter().filter(|(name, _)| name == "exclude").map(|(_, value)| value.as_str()).collect();
    let (code, healthy, reason) = match unhealthy(&node, serializable, &excluded).await {
        None => (StatusCode::OK, "true", String::new()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, "false", reason),
    };
    let counter = if code == StatusCode::OK { &node.metrics().healthy } else { &node.metrics().unhealthy };
    counter.inc();
    let body = serde_json::json!({ "health": healthy, "reason": reason });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn unhealthy(node: &RaftNode, serializable: bool, excluded: &[&str]) -> Option<String> {
    let alarms = match alarms(node) {
        Ok(alarms) => alarms,
        Err(error) => return Some(format!("RANGE ERROR:{error}")),
    };
    for (_, kind) in &alarms.0 {
        let name = AlarmKind::try_from(*kind).map_or("UNKNOWN", alarm_name);
        if !excluded.contains(&name) {
            return Some(format!("ALARM {name}"));
        }
    }
    if serializable {
        return None;
    }
    if node.leader().is_none() {
        return Some("RAFT NO LEADER".into());
    }
    node.read_barrier().await.err().map(|refusal| format!("RANGE ERROR:{refusal}"))
}

/// What is neither a call nor a path.
pub(crate) async fn not_found(request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return tonic::Status::unimplemented("unknown service or method").into_http::<Body>().into_response();
    }
    no_page()
}

/// There is no such page.
pub(crate) fn no_page() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// etcd's name of an alarm.
pub(crate) fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::None => "NONE",
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
}

fn note_check(metrics: &Metrics, kind: &str, name: &str, passed: bool) {
    let labels = vec![("name", name.to_owned()), ("type", kind.to_owned())];
    metrics.health_check.get_or_create(&labels).set(i64::from(passed));
    let status = if passed { "success" } else { "error" };
    let labels = vec![("name", name.to_owned()), ("status", status.to_owned()), ("type", kind.to_owned())];
    metrics.health_checks.get_or_create(&labels).inc();
}

async fn checked(
    path: &'static str,
    checks: &'static [Check],
    State(node): State<RaftNode>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let excluded = |check: &Check| query.iter().any(|(name, value)| name == "exclude" && value == check.name());
    let (mut lines, mut failed) = (String::new(), false);
    for check in checks.iter().filter(|check| !excluded(check)) {
        let answer = check.ask(&node).await;
        note_check(node.metrics(), path, check.name(), answer.is_ok());
        match answer {
            Ok(()) => lines.push_str(&format!("[+]{} ok\n", check.name())),
            Err(reason) => {
                failed = true;
                lines.push_str(&format!("[-]{} failed: {reason}\n", check.name()));
            }
        }
    }
    if failed {
        tracing::error!(path, reason = lines, "Health check error");
    }
    let (code, text) = match (failed, query.iter().any(|(name, _)| name == "verbose")) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("{lines}\n")),
        (false, true) => (StatusCode::OK, format!("{lines}ok\n")),
        (false, false) => (StatusCode::OK, "ok\n".into()),
    };
    (code, [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}
