//! Nodes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod_spec::{resources, scheduling::TAINT_EFFECTS};
use crate::{
    registry::{
        Column, Strategy, addresses,
        check::{At, internal_form},
        edit::{self, copy, ensure_object},
        print::{age, or_none},
    },
    request::RequestContext,
};

/// The rules of nodes.
pub(crate) struct Node;

#[async_trait]
impl Strategy for Node {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        pod_cidrs(spec);
        let status = ensure_object(&mut obj.0, "status");
        for list in ["capacity", "allocatable"] {
            if let Some(list) = edit::object(status, list) {
                resources::round_up(list);
            }
        }
        if let Some(capacity) = status.get("capacity").cloned() {
            edit::default_to(status, "allocatable", capacity);
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        taints(&spec.get("taints"), &mut errs);
        status_lists(&status, &mut errs);
        cidrs(&spec.get("podCIDRs"), &mut errs);
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        taints(&spec.get("taints"), &mut errs);
        status_lists(&At::field(obj, "status"), &mut errs);
        cidrs(&spec.get("podCIDRs"), &mut errs);
        if was.get("podCIDRs").size() > 0 && was.get("podCIDRs").value != spec.get("podCIDRs").value {
            errs.push(spec.get("podCIDRs").forbidden("node updates may not change podCIDR except from \"\" to valid"));
        }
        let (id, old_id) = (spec.get("providerID"), was.get("providerID"));
        if !old_id.is_empty() && id.str() != old_id.str() {
            errs.push(id.forbidden("node updates may not change providerID except from \"\" to valid"));
        }
        errs
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        status_lists(&At::field(obj, "status"), &mut errs);
        errs
    }

    fn keeps_status_on_create(&self) -> bool {
        true
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        vec!["spec.unschedulable".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        vec![("spec.unschedulable".into(), At::field(obj, "spec").get("unschedulable").is_true().to_string())]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the node."),
            Column::new("Status", "string", "Whether the node is ready, and whether it takes pods."),
            Column::new("Roles", "string", "Roles from the node's labels."),
            Column::new("Age", "string", "Time since creation."),
            Column::new("Version", "string", "The kubelet's version."),
            Column::wide("Internal-IP", "string", "The first internal address."),
            Column::wide("External-IP", "string", "The first external address."),
            Column::wide("OS-Image", "string", "The operating system."),
            Column::wide("Kernel-Version", "string", "The kernel."),
            Column::wide("Container-Runtime", "string", "The container runtime and its version."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let status = At::field(obj, "status");
        let info = status.get("nodeInfo");
        let or_unknown = |text: &str| Value::from(if text.is_empty() { "<unknown>" } else { text });
        vec![
            obj.name().into(),
            readiness(obj).into(),
            or_none(&roles(obj)),
            age(obj, now),
            info.get("kubeletVersion").str().into(),
            or_none(address(&status, "InternalIP")),
            or_none(address(&status, "ExternalIP")),
            or_unknown(info.get("osImage").str()),
            or_unknown(info.get("kernelVersion").str()),
            or_unknown(info.get("containerRuntimeVersion").str()),
        ]
    }
}

/// `podCIDR` is the first of `podCIDRs`.
fn pod_cidrs(spec: &mut edit::Fields) {
    let one = edit::text(spec, "podCIDR").to_owned();
    let first = edit::strings(spec, "podCIDRs").first().cloned();
    match (one.is_empty(), first) {
        (false, None) => drop(spec.insert("podCIDRs".into(), json!([one]))),
        (true, Some(first)) => drop(spec.insert("podCIDR".into(), first.into())),
        _ => {}
    }
}

fn cidrs(list: &At<'_>, errs: &mut ErrorList) {
    for cidr in list.items() {
        cidr.name(addresses::is_cidr, errs);
    }
}

/// Upstream reports taints under `metadata`.
fn taints(list: &At<'_>, errs: &mut ErrorList) {
    let list = list.under(Path::new("metadata").child("taints"));
    let mut seen = BTreeSet::new();
    for taint in list.items() {
        let (key, effect) = (taint.get("key"), taint.get("effect"));
        key.name(names::is_qualified_name, errs);
        taint.get("value").name(names::is_valid_label_value, errs);
        effect.one_of(&TAINT_EFFECTS, errs);
        if !seen.insert((key.str(), effect.str())) {
            let mut twice = Error::duplicate(&taint.path, internal_form(taint.value));
            twice.detail = "taints must be unique by key and effect pair".into();
            errs.push(twice);
        }
    }
}

fn status_lists(status: &At<'_>, errs: &mut ErrorList) {
    for list in ["capacity", "allocatable"] {
        let list = status.get(list);
        for (name, quantity) in list.entries() {
            resources::resource_value(name, &quantity.under(list.path.child(name)), errs);
        }
    }
}

fn readiness(obj: &Object) -> String {
    let conditions = At::field(obj, "status").get("conditions").items();
    let word = match conditions.iter().find(|c| c.get("type").str() == "Ready").map(|c| c.get("status").str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if At::field(obj, "spec").get("unschedulable").is_true() { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(obj: &Object) -> String {
    let mut found = BTreeSet::new();
    for (key, value) in obj.labels() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()) {
            found.insert(role.to_owned());
        } else if key == "kubernetes.io/role" && !value.is_empty() {
            found.insert(value);
        }
    }
    found.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(status: &At<'a>, kind: &str) -> &'a str {
    let addresses = status.get("addresses").items();
    addresses.iter().find(|a| a.get("type").str() == kind).map_or("", |a| a.get("address").str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_becomes_allocatable_and_the_range_a_list() {
        let given = json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "2", "memory": "1.5Gi"}}});
        let mut obj = Object::from_value(given).unwrap();
        Node.default(&mut obj);
        assert_eq!(obj.0["spec"]["podCIDRs"], json!(["10.1.0.0/24"]));
        assert_eq!(obj.0["status"]["allocatable"], json!({"cpu": "2", "memory": "1536Mi"}));
    }

    #[test]
    fn rows_tell_readiness_roles_and_addresses() {
        let obj = Object::from_value(json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "infra"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.2"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}))
        .unwrap();
        let cells = Node.cells(&obj, "2026-01-01T00:00:30Z".parse().unwrap());
        let expected = [
            "n",
            "Ready,SchedulingDisabled",
            "control-plane,infra",
            "30s",
            "v1.36.2",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>",
        ];
        assert_eq!(cells, expected.map(Value::from));
    }

    #[test]
    fn taints_are_reported_under_metadata() {
        let obj = Object::from_value(json!({"spec": {"taints": [{"key": "k", "effect": "X"}]}})).unwrap();
        let errs = Node.validate(&RequestContext::for_tests(), &obj);
        assert_eq!(
            errs[0].to_string(),
            r#"metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#
        );
    }
}
