//! Short ways to make pods and nodes in tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::cache::{NodeInfo, PodInfo};

pub(crate) fn pod(mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec})).unwrap()
}

pub(crate) fn named_pod(name: &str, spec: Value) -> Pod {
    let mut pod = pod(spec);
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod
}

/// A pod with a UID of its own.
pub(crate) fn pod_info(spec: Value) -> PodInfo {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("p{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    PodInfo::new(Arc::new(named_pod(&name, spec)))
}

pub(crate) fn api_node(name: &str, labels: Value, spec: Value, status: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})).unwrap()
}

pub(crate) fn node(name: &str, spec: Value, status: Value) -> NodeInfo {
    NodeInfo::new(Arc::new(api_node(name, json!({}), spec, status)))
}

pub(crate) fn labelled_node(name: &str, labels: Value) -> NodeInfo {
    NodeInfo::new(Arc::new(api_node(name, labels, json!({}), json!({}))))
}
