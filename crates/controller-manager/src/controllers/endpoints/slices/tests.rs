use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use serde_json::{Value, json};

use super::{Action, plan};

fn service(extra: &Value) -> Service {
    let mut value = json!({
        "metadata": {"name": "svc", "namespace": "default", "uid": "s"},
        "spec": {"selector": {"a": "b"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]},
    });
    for (name, field) in extra.as_object().into_iter().flatten() {
        value["spec"][name] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, ip: &str, ready: bool, port: i32) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"a": "b"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    }))
    .unwrap()
}

fn run(service: &Service, pods: Vec<Pod>, existing: &[Arc<EndpointSlice>], most: usize) -> Vec<Action> {
    let pods: Vec<_> = pods.into_iter().map(Arc::new).collect();
    plan(service, &pods, |_| Some("z1".into()), existing, most)
}

/// The slices that result, given names.
fn applied(actions: &[Action]) -> Vec<Arc<EndpointSlice>> {
    let slices = actions.iter().filter_map(|action| match action {
        Action::Create(slice) | Action::Update(slice) => Some(slice.as_ref().clone()),
        Action::Delete(_) => None,
    });
    let named = slices.enumerate().map(|(index, mut slice)| {
        slice.metadata.name.get_or_insert_with(|| format!("svc-{index}"));
        Arc::new(slice)
    });
    named.collect()
}

fn addresses(slice: &EndpointSlice) -> Vec<String> {
    slice.endpoints.iter().flatten().map(|endpoint| endpoint.addresses[0].clone()).collect()
}

#[test]
fn shows_pods_with_their_conditions_place_and_ports() {
    let mut leaving = pod("p2", "10.0.0.2", true, 8080);
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let slices = applied(&run(&service(&Value::Null), vec![pod("p1", "10.0.0.1", false, 8080), leaving], &[], 100));
    let shown = serde_json::to_value(&slices[0].endpoints).unwrap();
    assert_eq!(shown[0]["conditions"], json!({"ready": false, "serving": false, "terminating": false}));
    assert_eq!(shown[1]["conditions"], json!({"ready": false, "serving": true, "terminating": true}));
    assert_eq!((&shown[0]["nodeName"], &shown[0]["zone"]), (&json!("n1"), &json!("z1")));
    assert_eq!(serde_json::to_value(&slices[0].ports).unwrap(), json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
}

#[test]
fn a_settled_service_is_left_alone() {
    let service = service(&Value::Null);
    let slices = applied(&run(&service, vec![pod("p1", "10.0.0.1", true, 80)], &[], 100));
    assert_eq!(run(&service, vec![pod("p1", "10.0.0.1", true, 80)], &slices, 100), []);
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let service = service(&Value::Null);
    let slices = applied(&run(&service, vec![], &[], 100));
    assert!(addresses(&slices[0]).is_empty());
    assert_eq!(run(&service, vec![], &slices, 100), []);
    let actions = run(&service, vec![pod("p1", "10.0.0.1", true, 80)], &slices, 100);
    assert!(matches!(&actions[..], [Action::Delete(_), Action::Create(_)]), "{actions:?}");
}

#[test]
fn endpoints_stay_in_their_slices_and_new_ones_fill_the_gaps() {
    let service = service(&Value::Null);
    let pods = |range: std::ops::Range<u8>| range.map(|n| pod(&format!("p{n}"), &format!("10.0.0.{n}"), true, 80)).collect::<Vec<_>>();
    let slices = applied(&run(&service, pods(0..4), &[], 2));
    assert_eq!(slices.iter().map(|slice| addresses(slice)).collect::<Vec<_>>(), [["10.0.0.0", "10.0.0.1"], ["10.0.0.2", "10.0.0.3"]]);
    let changed = applied(&run(&service, pods(1..5), &slices, 2));
    assert_eq!(changed.iter().map(|slice| addresses(slice)).collect::<Vec<_>>(), [["10.0.0.1", "10.0.0.4"]]);
}

#[test]
fn a_named_port_of_different_numbers_makes_different_slices() {
    let pods = vec![pod("p1", "10.0.0.1", true, 80), pod("p2", "10.0.0.2", true, 81)];
    assert_eq!(applied(&run(&service(&Value::Null), pods, &[], 100)).len(), 2);
}

#[test]
fn unready_pods_are_published_as_ready_when_asked_to() {
    let service = service(&json!({"publishNotReadyAddresses": true, "clusterIP": "None"}));
    let slices = applied(&run(&service, vec![pod("p1", "10.0.0.1", false, 80)], &[], 100));
    assert_eq!(slices[0].endpoints.as_ref().unwrap()[0].conditions.as_ref().unwrap().ready, Some(true));
    assert!(slices[0].metadata.labels.as_ref().unwrap().contains_key("service.kubernetes.io/headless"));
}
