//! Evictions against an API server whose node differs from the cached one.

use std::convert::Infallible;

use clap::Parser as _;
use client::events::Recorder;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::sync::mpsc;

use super::*;
use crate::{Flags, context::Informers};

/// What the API server says of the node.
#[derive(Clone, Copy)]
enum Says {
    Tainted,
    Untainted,
    Nothing,
}

fn answer(says: Says, request: &Request<Body>) -> (u16, Value) {
    let taints = match says {
        Says::Nothing => return (503, json!({"kind": "Status", "status": "Failure", "code": 503})),
        Says::Tainted => json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
        Says::Untainted => json!([]),
    };
    match *request.method() {
        Method::GET => (200, json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})),
        _ => (200, json!({"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}})),
    }
}

/// A controller that takes node `n` as the server has it, and the deletes the server gets.
fn controller(says: Says) -> (Controller, mpsc::UnboundedReceiver<String>) {
    let (deletes, deleted) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(says, &request);
        if request.method() == Method::DELETE {
            let _ = deletes.send(request.uri().path().to_owned());
        }
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    });
    let client = Client::new(service, "default");
    let options = Flags::parse_from(["controller-manager"]).config().unwrap().options;
    let context = Context {
        client: client.clone(),
        informers: Informers::new(client.clone(), component::Shutdown::new()),
        recorder: Recorder::fake().0,
        queues: queue::Metrics::new(&component::metrics::Registry::new()),
        options: Arc::new(options),
        shutdown: component::Shutdown::new(),
    };
    let controller = Controller {
        nodes: Informer::new("nodes", Api::<Node>::all(client.clone())),
        pods: Informer::new("pods", Api::<Pod>::all(client)),
        queue: context.queue("test"),
        since: Mutex::default(),
        context,
    };
    (controller, deleted)
}

async fn settle(says: Says) -> (kube::Result<Outcome>, Option<String>) {
    let (controller, mut deleted) = controller(says);
    let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "n", "containers": []}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let outcome = controller.settle(&pod, &Key::of(&pod.metadata), Duration::from_secs(301)).await;
    (outcome, deleted.try_recv().ok())
}

#[tokio::test]
async fn a_pod_goes_when_the_server_has_the_taint_too() {
    assert_eq!(settle(Says::Tainted).await.1.as_deref(), Some("/api/v1/namespaces/default/pods/p"));
}

#[tokio::test]
async fn a_pod_stays_when_only_the_cache_has_the_taint() {
    let (outcome, deleted) = settle(Says::Untainted).await;
    assert!(outcome.is_ok() && deleted.is_none());
}

#[tokio::test]
async fn a_pod_stays_while_the_server_cannot_be_asked() {
    let (outcome, deleted) = settle(Says::Nothing).await;
    assert!(outcome.is_err_and(|error| is_unanswered(&error)) && deleted.is_none());
}
