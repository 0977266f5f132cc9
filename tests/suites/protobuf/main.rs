//! Typed clients that speak protobuf: they read, write and follow built-in kinds; of custom resources they see the metadata.
//!
//! The client's messages are `prost`'s, so that the server's codec cannot agree with itself only.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client;
mod messages;

use std::collections::BTreeMap;
use std::time::Duration;

use client::{PROTOBUF, Typed, seal};
use messages::{
    ConfigMap, ConfigMapList, DeleteOptions, IntOrString, ObjectMeta, PartialObjectMetadata, PartialObjectMetadataList, Preconditions,
    Service, ServicePort, ServiceSpec, Status,
};
use serde_json::{Value, json};
use tests::{Cluster, eventually};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

#[test]
fn typed_clients_read_write_and_follow_in_protobuf() {
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    let cases = async {
        let typed = Typed::new(&cluster).await;
        objects_are_written_and_read(&cluster, &typed).await;
        failures_are_told_in_protobuf(&typed).await;
        lists_come_in_pages(&typed).await;
        numbers_or_texts_and_defaults_arrive(&cluster, &typed).await;
        watches_are_frames(&cluster, &typed).await;
        custom_resources_have_metadata_only(&cluster, &typed).await;
        tables_and_the_version_stay_json(&typed).await;
        what_kube_apiserver_stored_is_served(&cluster, &typed).await;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), cases).await.expect("the client waits for ever") });
}

fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let labels = BTreeMap::from([("suite".to_owned(), "protobuf".to_owned())]);
    ConfigMap { metadata: Some(ObjectMeta { name: name.to_owned(), labels, ..Default::default() }), data, ..Default::default() }
}

async fn create(typed: &Typed, map: &ConfigMap) -> ConfigMap {
    typed.ask("POST", CONFIG_MAPS, PROTOBUF, seal("v1", "ConfigMap", map)).await.open(201, "ConfigMap")
}

async fn objects_are_written_and_read(cluster: &Cluster, typed: &Typed) {
    let mut map = config_map("first", &[("a", "ä"), ("empty", "")]);
    map.binary_data = BTreeMap::from([("bytes".to_owned(), vec![0, 255, 7])]);
    map.immutable = Some(false);
    let created = create(typed, &map).await;
    let meta = created.metadata.clone().unwrap();
    assert_eq!((meta.namespace.as_str(), meta.uid.len()), ("default", 36));
    assert!(meta.creation_timestamp.unwrap().seconds > 1_700_000_000);
    assert_eq!((&created.data, &created.binary_data, created.immutable), (&map.data, &map.binary_data, Some(false)));
    let seen = cluster.get(&["configmap", "first"]).unwrap();
    assert_eq!(seen["data"], json!({"a": "ä", "empty": ""}));
    assert_eq!((&seen["binaryData"], &seen["immutable"]), (&json!({"bytes": "AP8H"}), &json!(false)));

    let path = format!("{CONFIG_MAPS}/first");
    let read: ConfigMap = typed.get(&path, PROTOBUF).await.open(200, "ConfigMap");
    assert_eq!(read, created);
    let mut changed = read;
    changed.data.insert("a".to_owned(), "2".to_owned());
    let updated: ConfigMap = typed.ask("PUT", &path, PROTOBUF, seal("v1", "ConfigMap", &changed)).await.open(200, "ConfigMap");
    assert_eq!(updated.data["a"], "2");
    assert_ne!(updated.metadata.unwrap().resource_version, created.metadata.unwrap().resource_version);
}

async fn failures_are_told_in_protobuf(typed: &Typed) {
    let path = format!("{CONFIG_MAPS}/first");
    let mut stale: ConfigMap = typed.get(&path, PROTOBUF).await.open(200, "ConfigMap");
    stale.metadata.as_mut().unwrap().resource_version = "1".to_owned();
    let conflict: Status = typed.ask("PUT", &path, PROTOBUF, seal("v1", "ConfigMap", &stale)).await.open(409, "Status");
    assert_eq!((conflict.reason.as_str(), conflict.code, conflict.details.unwrap().name.as_str()), ("Conflict", 409, "first"));
    let garbled = typed.ask("POST", CONFIG_MAPS, PROTOBUF, b"k8s\0\x0a\x7f".to_vec()).await;
    assert_eq!(garbled.open::<Status>(400, "Status").reason, "BadRequest");
    // Errors are no metadata: they come in what else is accepted.
    let missing = typed.get(&format!("{CONFIG_MAPS}/none"), METADATA).await;
    assert_eq!((missing.code, missing.content_type.as_str()), (404, "application/json"));

    let wrong_uid = DeleteOptions { preconditions: Some(Preconditions { uid: Some("other".to_owned()) }), ..Default::default() };
    let refused: Status = typed.ask("DELETE", &path, PROTOBUF, seal("v1", "DeleteOptions", &wrong_uid)).await.open(409, "Status");
    assert_eq!(refused.reason, "Conflict");
    let at_once = DeleteOptions { grace_period_seconds: Some(0), ..Default::default() };
    let gone: Status = typed.ask("DELETE", &path, PROTOBUF, seal("v1", "DeleteOptions", &at_once)).await.open(200, "Status");
    assert_eq!((gone.status.as_str(), gone.details.unwrap().kind.as_str()), ("Success", "configmaps"));
}

async fn lists_come_in_pages(typed: &Typed) {
    for name in ["page-1", "page-2", "page-3"] {
        create(typed, &config_map(name, &[])).await;
    }
    let first = format!("{CONFIG_MAPS}?labelSelector=suite%3Dprotobuf&limit=2");
    let page: ConfigMapList = typed.get(&first, PROTOBUF).await.open(200, "ConfigMapList");
    assert_eq!(names(&page), ["page-1", "page-2"]);
    let next = format!("{first}&continue={}", page.metadata.unwrap().continue_token);
    let next: ConfigMapList = typed.get(&next, PROTOBUF).await.open(200, "ConfigMapList");
    assert_eq!(names(&next), ["page-3"]);
    let listed: PartialObjectMetadataList = typed.get(&first, METADATA_LIST).await.open(200, "PartialObjectMetadataList");
    assert_eq!(listed.items[0].metadata.as_ref().unwrap().labels["suite"], "protobuf");
    let one: PartialObjectMetadata = typed.get(&format!("{CONFIG_MAPS}/page-1"), METADATA).await.open(200, "PartialObjectMetadata");
    assert_eq!(one.metadata.unwrap().name, "page-1");
}

fn names(list: &ConfigMapList) -> Vec<&str> {
    list.items.iter().map(|item| item.metadata.as_ref().unwrap().name.as_str()).collect()
}

async fn numbers_or_texts_and_defaults_arrive(cluster: &Cluster, typed: &Typed) {
    let port = |name: &str, port, target_port| ServicePort { name: name.to_owned(), port, target_port, ..Default::default() };
    let named = IntOrString { kind: 1, text: "web".to_owned(), ..Default::default() };
    let ports = vec![port("a", 80, Some(named.clone())), port("b", 81, None)];
    let metadata = Some(ObjectMeta { name: "typed".to_owned(), ..Default::default() });
    let service = Service { metadata, spec: Some(ServiceSpec { ports, ..Default::default() }) };
    let path = "/api/v1/namespaces/default/services";
    let created: Service = typed.ask("POST", path, PROTOBUF, seal("v1", "Service", &service)).await.open(201, "Service");
    let spec = created.spec.unwrap();
    assert_eq!((spec.kind.as_str(), spec.ports[0].protocol.as_str()), ("ClusterIP", "TCP"));
    assert!(spec.cluster_ip.starts_with("10.96."), "{spec:?}");
    let targets: Vec<_> = spec.ports.iter().map(|port| port.target_port.clone().unwrap()).collect();
    assert_eq!(targets, [named, IntOrString { number: 81, ..Default::default() }]);
    let seen = cluster.get(&["service", "typed"]).unwrap();
    assert_eq!((&seen["spec"]["ports"][0]["targetPort"], &seen["spec"]["ports"][1]["targetPort"]), (&json!("web"), &json!(81)));
}

async fn watches_are_frames(cluster: &Cluster, typed: &Typed) {
    let list: ConfigMapList = typed.get(CONFIG_MAPS, PROTOBUF).await.open(200, "ConfigMapList");
    let since = list.metadata.unwrap().resource_version;
    let query = format!("watch=true&resourceVersion={since}&fieldSelector=metadata.name%3Dseen");
    let mut events = typed.watch(&format!("{CONFIG_MAPS}?{query}"), PROTOBUF).await;
    let mut metadata = typed.watch(&format!("{CONFIG_MAPS}?{query}"), METADATA).await;
    cluster.kubectl(&["create", "configmap", "seen", "--from-literal=a=1"]).ok();
    let added: ConfigMap = events.next("ADDED", "ConfigMap").await;
    assert_eq!(added.data["a"], "1");
    let partial: PartialObjectMetadata = metadata.next("ADDED", "PartialObjectMetadata").await;
    assert_eq!(partial.metadata.unwrap().uid, added.metadata.unwrap().uid);
    cluster.kubectl(&["patch", "configmap", "seen", "-p", r#"{"data":{"a":"2"}}"#]).ok();
    assert_eq!(events.next::<ConfigMap>("MODIFIED", "ConfigMap").await.data["a"], "2");
    cluster.kubectl(&["delete", "configmap", "seen"]).ok();
    assert_eq!(events.next::<ConfigMap>("DELETED", "ConfigMap").await.data["a"], "2");

    let initial = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut events = typed.watch(&format!("{CONFIG_MAPS}?{initial}&fieldSelector=metadata.name%3Dpage-1"), PROTOBUF).await;
    assert_eq!(events.next::<ConfigMap>("ADDED", "ConfigMap").await.metadata.unwrap().name, "page-1");
    let end = events.next::<ConfigMap>("BOOKMARK", "ConfigMap").await.metadata.unwrap();
    assert_eq!(end.annotations["k8s.io/initial-events-end"], "true");
    assert!(end.resource_version.parse::<u64>().unwrap() > since.parse::<u64>().unwrap());
}

async fn custom_resources_have_metadata_only(cluster: &Cluster, typed: &Typed) {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let spec =
        json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "spec": spec,
    });
    cluster.apply(&definition.to_string());
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}});
    eventually("things are served", || cluster.kubectl_with_input(&["apply", "-f", "-"], &thing.to_string()).code == 0);
    let path = "/apis/example.com/v1/namespaces/default/things/one";
    let one: PartialObjectMetadata = typed.get(path, METADATA).await.open(200, "PartialObjectMetadata");
    assert_eq!(one.metadata.unwrap().name, "one");
    let either = format!("{PROTOBUF},application/json");
    let plain = typed.get(path, &either).await;
    assert_eq!((plain.code, plain.content_type.as_str()), (200, "application/json"));
    let refused: Status = typed.get(path, PROTOBUF).await.open(406, "Status");
    assert!(refused.message.starts_with("only the following media types are accepted: application/json"), "{refused:?}");
    let body = seal("example.com/v1", "Thing", &PartialObjectMetadata::default());
    let unread: Status = typed.ask("POST", path.trim_end_matches("/one"), &either, body).await.open(415, "Status");
    assert_eq!(unread.reason, "UnsupportedMediaType");
}

async fn tables_and_the_version_stay_json(typed: &Typed) {
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(typed.get(CONFIG_MAPS, &table).await.code, 406);
    let version = typed.get("/version", &format!("{PROTOBUF},application/json")).await;
    let version: Value = serde_json::from_slice(&version.body).unwrap();
    assert_eq!(version["minor"], "36");
}

/// A value in protobuf lies in the store: it is served, followed, and replaced by JSON with the next write.
async fn what_kube_apiserver_stored_is_served(cluster: &Cluster, typed: &Typed) {
    let mut map = config_map("stored", &[("a", "1")]);
    map.metadata.as_mut().unwrap().namespace = "default".to_owned();
    // All lengths are below 128, so that the value is a text that can be typed.
    let value = String::from_utf8(seal("v1", "ConfigMap", &map)).unwrap();
    let key = "/registry/configmaps/default/stored";
    let mut put = cluster.etcdctl_command(&["store-1"], &["put", key]);
    tests::run_with_input(&mut put, &value).ok();
    eventually("the object is there", || cluster.get(&["configmap", "stored"]).is_some_and(|seen| seen["data"] == json!({"a": "1"})));
    let listed: ConfigMapList = typed.get(CONFIG_MAPS, PROTOBUF).await.open(200, "ConfigMapList");
    assert!(names(&listed).contains(&"stored"));
    cluster.kubectl(&["patch", "configmap", "stored", "-p", r#"{"data":{"b":"2"}}"#]).ok();
    let stored = cluster.etcdctl(&["store-1"], &["get", key, "--print-value-only"]).ok();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["data"], json!({"a": "1", "b": "2"}));
}
