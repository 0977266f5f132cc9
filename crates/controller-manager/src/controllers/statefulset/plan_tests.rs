use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::StatefulSet, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};

use super::{
    plan::{Action, Revision, plan},
    pods,
};

fn set(replicas: i32, extra: &Value) -> StatefulSet {
    let mut value = json!({
        "metadata": {"name": "s", "namespace": "default", "uid": "s"},
        "spec": {
            "replicas": replicas, "serviceName": "svc", "selector": {"matchLabels": {"a": "b"}}, "template": {},
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"l": "v"}}, "spec": {}}],
        },
    });
    for (name, field) in extra.as_object().into_iter().flatten() {
        value["spec"][name] = field.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn revision(name: &str) -> Revision {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": name}]}});
    Revision { name: name.into(), template: serde_json::from_value(template).unwrap() }
}

fn pod(ordinal: i32, of: &str, ready: bool) -> Arc<Pod> {
    let mut pod = pods::pod(&set(1, &Value::Null), &revision(of).template, of, ordinal);
    pod.metadata.uid = pod.metadata.name.clone();
    let ready = if ready { "True" } else { "False" };
    pod.status = serde_json::from_value(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]})).unwrap();
    Arc::new(pod)
}

fn steps(set: &StatefulSet, existing: &[Arc<Pod>], current: &str, update: &str) -> Vec<String> {
    let (actions, _) = plan(set, existing, &revision(current), &revision(update), Timestamp::UNIX_EPOCH);
    let told = actions.into_iter().map(|action| match action {
        Action::Create(ordinal, pod) => format!("+{ordinal}:{}", pods::revision(&pod)),
        Action::Delete(pod) => format!("-{}", pod.metadata.name.as_deref().unwrap()),
    });
    told.collect()
}

#[test]
fn starts_pods_one_after_the_other_as_they_get_ready() {
    let set = set(2, &Value::Null);
    assert_eq!(steps(&set, &[], "v1", "v1"), ["+0:v1"]);
    assert!(steps(&set, &[pod(0, "v1", false)], "v1", "v1").is_empty());
    assert_eq!(steps(&set, &[pod(0, "v1", true)], "v1", "v1"), ["+1:v1"]);
}

#[test]
fn starts_all_at_once_when_parallel() {
    let set = set(3, &json!({"podManagementPolicy": "Parallel"}));
    assert_eq!(steps(&set, &[pod(1, "v1", false)], "v1", "v1"), ["+0:v1", "+2:v1"]);
}

#[test]
fn shrinks_from_the_end_one_by_one() {
    let existing = [pod(0, "v1", true), pod(1, "v1", true), pod(2, "v1", true)];
    assert_eq!(steps(&set(1, &Value::Null), &existing, "v1", "v1"), ["-s-2"]);
    let mut going = existing[2].as_ref().clone();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let waiting = [existing[0].clone(), existing[1].clone(), Arc::new(going)];
    assert!(steps(&set(1, &Value::Null), &waiting, "v1", "v1").is_empty());
}

#[test]
fn updates_from_the_last_ordinal_down_to_the_partition() {
    let set_of = |partition: i32| set(3, &json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}}));
    let old = [pod(0, "v1", true), pod(1, "v1", true), pod(2, "v1", true)];
    assert_eq!(steps(&set_of(0), &old, "v1", "v2"), ["-s-2"]);
    let one_new = [old[0].clone(), old[1].clone(), pod(2, "v2", true)];
    assert_eq!(steps(&set_of(0), &one_new, "v1", "v2"), ["-s-1"]);
    assert!(steps(&set_of(2), &one_new, "v1", "v2").is_empty());
    let not_ready = [old[0].clone(), old[1].clone(), pod(2, "v2", false)];
    assert!(steps(&set_of(0), &not_ready, "v1", "v2").is_empty());
}

#[test]
fn replaces_nothing_by_itself_on_delete() {
    let set = set(1, &json!({"updateStrategy": {"type": "OnDelete"}}));
    assert!(steps(&set, &[pod(0, "v1", true)], "v1", "v2").is_empty());
    assert_eq!(steps(&set, &[], "v1", "v2"), ["+0:v2"]);
}

#[test]
fn an_update_is_over_when_all_are_new_and_ready() {
    let existing = [pod(0, "v2", true), pod(1, "v2", true)];
    let (_, status) = plan(&set(2, &Value::Null), &existing, &revision("v1"), &revision("v2"), Timestamp::UNIX_EPOCH);
    assert_eq!((status.current_revision.as_deref(), status.current_replicas), (Some("v2"), Some(2)));
}

#[test]
fn each_pod_has_its_name_host_and_claim() {
    let pod = pod(1, "v1", true);
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("s-1"), Some("svc")));
    let volumes = serde_json::to_value(&spec.volumes).unwrap();
    assert_eq!(volumes, json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}]));
    let (_, claim) = pods::claims(&set(2, &Value::Null), 1).remove(0);
    assert_eq!(serde_json::to_value(claim.metadata.labels).unwrap(), json!({"a": "b", "l": "v"}));
}
