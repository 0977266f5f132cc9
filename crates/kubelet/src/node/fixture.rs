//! A node of a runtime and an API server that only takes notes, for tests.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::runtime::hollow::Hollow;

/// Method, path and body of a request.
pub(crate) type Note = (Method, String, Value);

/// A client whose server answers everything with an empty object and passes on what it was asked.
pub(crate) fn fake_api() -> (Client, mpsc::UnboundedReceiver<Note>) {
    fake_api_failing("/nothing/")
}

/// The same, but what is asked about paths that hold `broken` fails.
pub(crate) fn fake_api_failing(broken: &'static str) -> (Client, mpsc::UnboundedReceiver<Note>) {
    let (notes, asked) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let notes = notes.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let failure = head.uri.path().contains(broken);
            let _ = notes.send((head.method, head.uri.path().to_owned(), body));
            let mut response = Response::new(Full::new(Bytes::from_static(b"{\"metadata\":{}}")));
            if failure {
                *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            }
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(service, "default"), asked)
}

fn settings() -> Settings {
    Settings {
        dns: dns::Dns::default(),
        max_restart_delay: SignedDuration::from_secs(300),
        max_pods: 110,
        thresholds: Default::default(),
        garbage: Default::default(),
        labels: BTreeMap::new(),
        taints: vec![],
        register: true,
        lease_seconds: 40,
        status_update: std::time::Duration::from_secs(10),
        status_report: std::time::Duration::from_secs(300),
        port: 10250,
    }
}

/// The `index`-th node, where nothing runs.
pub(crate) fn hollow_node(index: u32, client: &Client) -> Arc<Node> {
    let nowhere = paths::Paths::new("/nonexistent", "/nonexistent");
    node(&format!("node-{index}"), Arc::new(Hollow::new(index, Timestamp::now)), nowhere, client)
}

/// A node with this runtime, whose pods have no volumes, environments or probes.
pub(crate) fn node(name: &str, cri: Arc<dyn Cri>, paths: paths::Paths, client: &Client) -> Arc<Node> {
    let node = Arc::new(Node {
        name: name.to_owned(),
        client: client.clone(),
        cri,
        runtime: "hollow".into(),
        runtime_version: "0".into(),
        simulated: true,
        paths,
        host_ips: vec!["192.0.2.1".into()],
        capacity: capacity::Capacity::hollow(),
        cgroup_files: std::collections::HashMap::new(),
        settings: Arc::new(settings()),
        events: events::Events::new(client::events::Recorder::fake().0),
        objects: Objects::new(client.clone()),
        tokens: Tokens::new(client.clone()),
        services: services::Services::new(client.clone()),
        images: Images::new(1),
        volumes: Volumes::new(),
        statuses: statuses::Statuses::default(),
        pods: pods::Pods::default(),
        clock: Timestamp::now,
    });
    node.volumes.attach(&node);
    let writer = node.clone();
    tokio::spawn(async move { writer.statuses.run(&writer.client).await });
    node
}

/// A pod with one container, `main`, and more in its metadata.
pub(crate) fn pod(name: &str, extra: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    });
    if let (Some(metadata), Some(extra)) = (pod["metadata"].as_object_mut(), extra.as_object()) {
        metadata.extend(extra.clone());
    }
    serde_json::from_value(pod).unwrap()
}
