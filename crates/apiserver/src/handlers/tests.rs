//! The whole service in process, on memory storage.

mod any_object;
mod content;
mod custom;
mod deletion;
mod eviction;
mod lists;
mod objects;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use apimachinery::status::Status;
use async_trait::async_trait;
use axum::body::Body;
use component::{Shutdown, clock::SystemClock, health::Health, metrics::Registry};
use futures::StreamExt;
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::{
    admission::{Admission, Attributes, Chain, Operation},
    aggregator::{Aggregator, AggregatorConfig},
    authn::Union,
    authz::AlwaysAllow,
    loopback::{Loopback, Service},
    pipeline::{Limits, Metrics, Permit},
    registry::{Streams, Wiring, store::Hub},
    request::RequestContext,
    server::{Server, service},
    storage::memory::Memory,
};

const MERGE: &str = "application/merge-patch+json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const MAPS: &str = "/api/v1/namespaces/a/configmaps";

fn api() -> Service {
    api_with(|_| Chain::default())
}

fn api_with(chain: impl FnOnce(Loopback) -> Chain) -> Service {
    let loopback = Loopback::default();
    api_of(hub(chain(loopback.clone()), loopback.clone()), &loopback)
}

/// The registry over an empty store.
pub(crate) fn hub(chain: Chain, loopback: Loopback) -> Arc<Hub> {
    Arc::new(Hub::new(Arc::new(Memory::new()), "/registry", &Wiring::default(), chain, loopback))
}

fn api_of(hub: Arc<Hub>, loopback: &Loopback) -> Service {
    api_speaking(hub, loopback, false)
}

fn api_speaking(hub: Arc<Hub>, loopback: &Loopback, cbor: bool) -> Service {
    service(Arc::new(Server { cbor, ..server(hub) }), loopback)
}

/// A server that lets everybody do everything.
pub(crate) fn server(hub: Arc<Hub>) -> Server {
    let metrics = Arc::new(Registry::new());
    Server {
        hub,
        aggregator: Arc::new(Aggregator::new(AggregatorConfig::default(), Streams::default(), &metrics)),
        authenticator: Arc::new(Union::new(Vec::new())),
        claims: Default::default(),
        anonymous: true,
        authorizer: Arc::new(AlwaysAllow),
        metrics: Metrics::new(&metrics),
        limits: Limits::new(0, 0, Duration::from_secs(5)),
        probes: component::health::router(Arc::new(Health::new()), metrics),
        checks: Vec::new(),
        min_request_timeout: Duration::from_secs(60),
        advertised: "127.0.0.1:6443".into(),
        issuer_documents: None,
        documents: Default::default(),
        cors: Vec::new(),
        cbor: false,
        clock: Arc::new(SystemClock),
        lifecycle: Arc::default(),
    }
}

struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: Value,
}

async fn send(api: &Service, method: &str, url: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = api.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { code: parts.status.as_u16(), headers: parts.headers, body }
}

async fn get(api: &Service, url: &str) -> Answer {
    send(api, "GET", url, &[], Body::empty()).await
}

async fn post(api: &Service, url: &str, object: &Value) -> Answer {
    send(api, "POST", url, &[], object.to_string()).await
}

async fn put(api: &Service, url: &str, object: &Value) -> Answer {
    send(api, "PUT", url, &[], object.to_string()).await
}

async fn patch(api: &Service, url: &str, kind: &str, patch: &Value) -> Answer {
    send(api, "PATCH", url, &[("content-type", kind)], patch.to_string()).await
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"v": value}}, "data": {"k": value}})
}

#[tokio::test]
async fn a_created_object_is_read_back_with_its_system_fields() {
    let api = api();
    let created = post(&api, MAPS, &map("x", "1")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let read = get(&api, &format!("{MAPS}/x")).await;
    assert_eq!(read.body, created.body);
    assert_eq!(read.body["metadata"]["namespace"], "a");
    assert!(!read.body["metadata"]["uid"].as_str().unwrap().is_empty());
    assert!(read.headers.contains_key("audit-id"));
}

#[tokio::test]
async fn a_second_creation_conflicts() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    let again = post(&api, MAPS, &map("x", "1")).await;
    assert_eq!((again.code, again.body["reason"].as_str()), (409, Some("AlreadyExists")));
}

#[tokio::test]
async fn a_stale_version_conflicts_and_none_overwrites() {
    let api = api();
    let first = post(&api, MAPS, &map("x", "1")).await.body;
    let url = format!("{MAPS}/x");
    let mut stale = map("x", "2");
    stale["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
    assert_eq!(put(&api, &url, &stale).await.code, 200);
    let refused = put(&api, &url, &stale).await;
    assert_eq!(refused.code, 409);
    let text = "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(refused.body["message"], text);
    assert_eq!(put(&api, &url, &map("x", "3")).await.code, 200);
}

#[tokio::test]
async fn merge_and_json_patches_change_only_what_they_name() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    let url = format!("{MAPS}/x");
    let merged = patch(&api, &url, MERGE, &json!({"data": {"l": "2"}})).await;
    assert_eq!(merged.body["data"], json!({"k": "1", "l": "2"}));
    let patched = patch(&api, &url, "application/json-patch+json", &json!([{"op": "remove", "path": "/data/k"}])).await;
    assert_eq!(patched.body["data"], json!({"l": "2"}));
    assert_eq!(patch(&api, &url, "text/plain", &json!({})).await.code, 415);
}

#[tokio::test]
async fn a_deleted_object_is_gone() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    let deleted = send(&api, "DELETE", &format!("{MAPS}/x"), &[], Body::empty()).await;
    assert_eq!((deleted.code, deleted.body["status"].as_str()), (200, Some("Success")));
    assert_eq!(get(&api, &format!("{MAPS}/x")).await.code, 404);
}

/// Does something to an object while its deletion is under way, once.
struct Meanwhile {
    api: Loopback,
    done: AtomicBool,
    replace: bool,
}

#[async_trait]
impl Admission for Meanwhile {
    fn name(&self) -> &'static str {
        "meanwhile"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Delete
    }

    async fn validate(&self, _: &RequestContext, attributes: &Attributes) -> Result<(), Status> {
        let api = self.api.namespaced("v1", "configmaps", &attributes.namespace);
        if self.done.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if self.replace {
            api.delete(&attributes.name, &json!({})).await?;
            return api.create(&apimachinery::Object::from_value(map(&attributes.name, "2")).unwrap()).await.map(drop);
        }
        api.merge_patch(&attributes.name, &json!({"metadata": {"finalizers": ["example.com/f"]}})).await.map(drop)
    }
}

fn meanwhile(replace: bool) -> Service {
    api_with(|api| Chain::new(vec![Arc::new(Meanwhile { api, done: AtomicBool::new(false), replace })]))
}

#[tokio::test]
async fn a_finalizer_added_while_a_deletion_is_decided_holds_the_object() {
    let api = meanwhile(false);
    post(&api, MAPS, &map("x", "1")).await;
    let url = format!("{MAPS}/x");
    let deleted = send(&api, "DELETE", &url, &[], Body::empty()).await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    let held = get(&api, &url).await.body;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/f"]));
}

#[tokio::test]
async fn deleting_a_collection_spares_what_came_after_the_list() {
    let api = meanwhile(true);
    post(&api, MAPS, &map("x", "1")).await;
    let deleted = send(&api, "DELETE", MAPS, &[], Body::empty()).await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    assert_eq!(get(&api, &format!("{MAPS}/x")).await.body["data"]["k"], "2");
}

#[tokio::test]
async fn a_write_counts_as_in_flight_until_it_ends_though_its_client_left() {
    let room = Arc::new(Semaphore::new(1));
    let permit = Permit(Arc::new(room.clone().try_acquire_owned().unwrap()));
    let write = super::detached(std::future::pending(), Some(permit), Duration::from_millis(100));
    assert!(tokio::time::timeout(Duration::from_millis(1), write).await.is_err());
    assert_eq!(room.available_permits(), 0);
    let freed = tokio::time::timeout(Duration::from_secs(10), room.acquire()).await;
    assert!(freed.is_ok());
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let api = api();
    assert_eq!(post(&api, &format!("{MAPS}?dryRun=All"), &map("x", "1")).await.code, 201);
    assert_eq!(get(&api, &format!("{MAPS}/x")).await.code, 404);
}

#[tokio::test]
async fn lists_are_selected_paged_and_shown_as_tables() {
    let api = api();
    for (name, value) in [("x", "1"), ("y", "2"), ("z", "1")] {
        post(&api, MAPS, &map(name, value)).await;
    }
    let names = |body: &Value| {
        body["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&get(&api, &format!("{MAPS}?labelSelector=v%3D1")).await.body), ["x", "z"]);
    assert_eq!(names(&get(&api, &format!("{MAPS}?fieldSelector=metadata.name%3Dy")).await.body), ["y"]);
    let page = get(&api, &format!("{MAPS}?limit=2")).await.body;
    assert_eq!((names(&page), page["metadata"]["remainingItemCount"].as_u64()), (vec!["x".to_owned(), "y".to_owned()], Some(1)));
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&get(&api, &format!("{MAPS}?limit=2&continue={token}")).await.body), ["z"]);
    let table = send(&api, "GET", MAPS, &[("accept", TABLE)], Body::empty()).await.body;
    assert_eq!((table["kind"].as_str(), table["rows"].as_array().map(Vec::len)), (Some("Table"), Some(3)));
    assert_eq!(get(&api, &format!("{MAPS}?fieldSelector=spec.x%3Dy")).await.code, 400);
}

#[tokio::test]
async fn a_watch_shows_each_change_in_order() {
    let api = api();
    let first = post(&api, MAPS, &map("x", "1")).await.body;
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let url = format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=30");
    let response = api.clone().oneshot(Request::get(url).body(Body::empty()).unwrap()).await.unwrap();
    patch(&api, &format!("{MAPS}/x"), MERGE, &json!({"data": {"k": "2"}})).await;
    send(&api, "DELETE", &format!("{MAPS}/x"), &[], Body::empty()).await;
    let mut lines = response.into_body().into_data_stream();
    for expected in ["MODIFIED", "DELETED"] {
        let line: Value = serde_json::from_slice(&lines.next().await.unwrap().unwrap()).unwrap();
        assert_eq!(line["type"], expected);
        assert_eq!(line["object"]["kind"], "ConfigMap");
    }
}

#[tokio::test]
async fn unknown_fields_warn_or_are_refused_as_asked() {
    let api = api();
    let mut odd = map("x", "1");
    odd["colour"] = "red".into();
    let warned = post(&api, MAPS, &odd).await;
    assert_eq!((warned.code, warned.headers[header::WARNING].to_str().unwrap()), (201, "299 - \"unknown field \\\"colour\\\"\""));
    odd["metadata"]["name"] = "y".into();
    let refused = post(&api, &format!("{MAPS}?fieldValidation=Strict"), &odd).await;
    assert_eq!(refused.code, 400);
    assert!(refused.body["message"].as_str().unwrap().contains("strict decoding error: unknown field \"colour\""));
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let api = api();
    assert_eq!(get(&api, "/apis/nope.k8s.io").await.body, "404 page not found\n");
    assert_eq!(get(&api, "/apis/apps/v9/deployments").await.body["reason"], "NotFound");
    assert_eq!(put(&api, "/api/v1/nodes", &json!({})).await.code, 405);
    assert_eq!(send(&api, "GET", MAPS, &[("accept", "application/xml")], Body::empty()).await.code, 406);
    assert_eq!(send(&api, "HEAD", &format!("{MAPS}/x"), &[], Body::empty()).await.code, 405);
    assert_eq!(send(&api, "POST", MAPS, &[], vec![b' '; 4 * 1024 * 1024]).await.code, 413);
}

#[tokio::test]
async fn discovery_lists_kinds_in_both_forms() {
    let api = api();
    let apps = get(&api, "/apis/apps/v1").await.body;
    let scale = apps["resources"].as_array().unwrap().iter().find(|r| r["name"] == "deployments/scale").unwrap();
    assert_eq!((scale["group"].as_str(), scale["kind"].as_str()), (Some("autoscaling"), Some("Scale")));
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")];
    let all = send(&api, "GET", "/apis", &accept, Body::empty()).await;
    assert_eq!(all.body["kind"], "APIGroupDiscoveryList");
    let tag = all.headers[header::ETAG].to_str().unwrap();
    let known = send(&api, "GET", "/apis", &[accept[0], ("if-none-match", tag)], Body::empty()).await;
    assert_eq!(known.code, 304);
}

#[tokio::test]
async fn a_large_answer_is_compressed_for_those_who_take_it() {
    let api = api();
    post(&api, MAPS, &map("x", &"y".repeat(60))).await;
    let mut big = map("big", "1");
    big["data"]["k"] = "z".repeat(200 * 1024).into();
    post(&api, MAPS, &big).await;
    let answer = send(&api, "GET", &format!("{MAPS}/big"), &[("accept-encoding", "gzip")], Body::empty()).await;
    assert_eq!(answer.headers[header::CONTENT_ENCODING], "gzip");
    let small = send(&api, "GET", &format!("{MAPS}/x"), &[("accept-encoding", "gzip")], Body::empty()).await;
    assert!(!small.headers.contains_key(header::CONTENT_ENCODING));
}

#[tokio::test]
async fn a_scale_changes_its_deployment_and_counts_as_a_new_spec() {
    let api = api();
    let url = "/apis/apps/v1/namespaces/a/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let created = post(&api, url, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let scale = get(&api, &format!("{url}/d/scale")).await.body;
    assert_eq!((scale["spec"]["replicas"].as_i64(), scale["status"]["selector"].as_str()), (Some(2), Some("a=b")));
    let scaled = patch(&api, &format!("{url}/d/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scaled.body["spec"]["replicas"], 5);
    assert_eq!(get(&api, &format!("{url}/d")).await.body["spec"]["replicas"], 5);
    let table = send(&api, "GET", &format!("{url}/d/scale"), &[("accept", TABLE)], Body::empty()).await.body;
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("d"), json!(5), json!(0)]);
}
