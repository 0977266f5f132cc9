//! An API server that knows nodes, for as much as a list and a watch need.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Every event there was; the resourceVersion is their number.
type Log = Arc<watch::Sender<Vec<Value>>>;

pub(crate) struct Api {
    log: Log,
    files: tempfile::TempDir,
}

impl Api {
    pub(crate) async fn start(nodes: Vec<Value>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", listener.local_addr().unwrap())}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(files.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let api = Self { log: Arc::default(), files };
        nodes.into_iter().for_each(|node| api.add(node));
        let router = Router::new().route("/api/v1/nodes", get(nodes_of)).with_state(api.log.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        api
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.files.path().join("kubeconfig")
    }

    pub(crate) fn add(&self, node: Value) {
        self.tell("ADDED", node);
    }

    pub(crate) fn remove(&self, name: &str) {
        let node = current(&self.log.borrow()).remove(name).unwrap();
        self.tell("DELETED", node);
    }

    fn tell(&self, what: &str, mut node: Value) {
        self.log.send_modify(|log| {
            node["metadata"]["resourceVersion"] = json!((log.len() + 1).to_string());
            log.push(json!({"type": what, "object": node}));
        });
    }
}

fn current(log: &[Value]) -> BTreeMap<String, Value> {
    let mut nodes = BTreeMap::new();
    for event in log {
        let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
        match event["type"].as_str() {
            Some("DELETED") => drop(nodes.remove(&name)),
            _ => drop(nodes.insert(name, event["object"].clone())),
        }
    }
    nodes
}

async fn nodes_of(State(log): State<Log>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    if query.get("watch").is_some_and(|watch| watch == "true") {
        let after: usize = query["resourceVersion"].parse().unwrap();
        return Body::from_stream(stream::unfold((log.subscribe(), after), next)).into_response();
    }
    let log = log.borrow().clone();
    let items: Vec<_> = current(&log).into_values().collect();
    Json(json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": log.len().to_string()}, "items": items}))
        .into_response()
}

type Reader = (watch::Receiver<Vec<Value>>, usize);

async fn next((mut log, after): Reader) -> Option<(Result<String, std::convert::Infallible>, Reader)> {
    let line = format!("{}\n", log.wait_for(|log| log.len() > after).await.ok()?[after]);
    Some((Ok(line), (log, after + 1)))
}
