//! Pods.

mod binding;
mod condition;
mod eviction;
mod log;
mod print;
mod stream;
mod views;

use std::borrow::Cow;

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use binding::Bind;
pub(crate) use log::address as kubelet_address;

use super::{
    pod_spec::{self, defaults, resources, update},
    proxy,
};
use crate::{
    registry::{
        Column, DeleteOptions, Generation, Resource, Strategy, Subresource, Wiring,
        check::At,
        edit::{self, ensure_object},
        namespaced,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The resource `pods` with its subresources.
pub(crate) fn resource(wiring: &Wiring) -> Resource {
    let strategy = Pod { allow_privileged: wiring.allow_privileged };
    let stream = |name, kind, options| {
        let (kubelet, authorizer) = (wiring.kubelet.clone(), wiring.authorizer.clone());
        let stream = stream::Stream { kind, kubelet, authorizer, streams: wiring.streams.clone() };
        Subresource::call(name, &["create", "get"], ("", "v1", options), stream)
    };
    namespaced("", "v1", "Pod", "pods")
        .short(&["po"])
        .category("all")
        .strategy(strategy)
        .returns_deleted()
        .status()
        .sub(Subresource::call("binding", &["create"], ("", "v1", "Binding"), Bind))
        .sub(Subresource::internal(binding::ASSIGN, binding::Assign))
        .sub(Subresource::call("eviction", &["create"], ("policy", "v1", "Eviction"), eviction::Evict))
        .sub(Subresource::view("ephemeralcontainers", views::EphemeralContainers))
        .sub(Subresource::view("resize", views::Resize))
        .sub(proxy::of_pods(wiring))
        .sub(stream("exec", stream::Kind::Exec, "PodExecOptions"))
        .sub(stream("attach", stream::Kind::Attach, "PodAttachOptions"))
        .sub(stream("portforward", stream::Kind::PortForward, "PodPortForwardOptions"))
        .sub(Subresource::call("log", &["get"], ("", "v1", "Pod"), log::Log(wiring.kubelet.clone())))
}

/// The rules of pods.
pub(crate) struct Pod {
    /// Whether privileged containers may be made.
    pub(crate) allow_privileged: bool,
}

/// Field labels and where their values are.
const FIELDS: [(&str, &str); 8] = [
    ("spec.nodeName", "/spec/nodeName"),
    ("spec.restartPolicy", "/spec/restartPolicy"),
    ("spec.schedulerName", "/spec/schedulerName"),
    ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ("spec.hostNetwork", "/spec/hostNetwork"),
    ("status.phase", "/status/phase"),
    ("status.podIP", "/status/podIP"),
    ("status.nominatedNodeName", "/status/nominatedNodeName"),
];

#[async_trait]
impl Strategy for Pod {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        defaults::pod_spec(spec);
        defaults::pod_only(spec);
        pod_ips(obj);
    }

    fn prepare_for_create(&self, ctx: &RequestContext, obj: &mut Object) {
        defaults::mirror_service_account(ensure_object(&mut obj.0, "spec"));
        let class = resources::qos_class(&At::field(obj, "spec"));
        let mut status = json!({"phase": "Pending", "qosClass": class});
        if At::field(obj, "spec").get("schedulingGates").size() > 0 {
            status["conditions"] = json!([gated_condition(ctx.now)]);
        }
        obj.0.insert("status".into(), status);
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, _old: &Object) {
        defaults::mirror_service_account(ensure_object(&mut obj.0, "spec"));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        pod_spec::validate(&spec, &mut errs);
        privileged(&spec, self.allow_privileged, &mut errs);
        let ephemeral = spec.get("ephemeralContainers");
        if ephemeral.size() > 0 {
            errs.push(ephemeral.forbidden("cannot be set on create"));
        }
        gates_go_with_no_node(&spec, &mut errs);
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (new, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        pod_spec::validate(&new, &mut errs);
        update::validate(&new, &was, &mut errs);
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        pod_spec::warnings::collect(&At::field(obj, "spec"))
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        &["metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.ownerReferences"]
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let was = old.pointer("/status/qosClass").cloned();
        let status = ensure_object(&mut obj.0, "status");
        if let Some(class) = was {
            edit::default_zero(status, "qosClass", class);
        }
        pod_ips(obj);
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (status, was) = (At::field(obj, "status"), At::field(old, "status"));
        update::state_transitions(&At::field(obj, "spec"), &status, &was, &mut errs);
        let (class, old_class) = (status.get("qosClass"), was.get("qosClass"));
        if !old_class.is_empty() && class.str() != old_class.str() {
            errs.push(class.invalid("field is immutable"));
        }
        for list in ["podIPs", "hostIPs"] {
            for ip in status.get(list).items() {
                ip.get("ip").under(ip.path).name(crate::registry::addresses::is_ip, &mut errs);
            }
        }
        errs
    }

    fn graceful_delete(&self, _ctx: &RequestContext, obj: &Object, options: &DeleteOptions) -> Option<i64> {
        let wish = options.grace_period_seconds.or_else(|| At::field(obj, "spec").get("terminationGracePeriodSeconds").int());
        let unscheduled = obj.str_at("/spec/nodeName").is_empty();
        let over = ["Failed", "Succeeded"].contains(&obj.str_at("/status/phase"));
        match wish.unwrap_or(0) {
            _ if unscheduled || over => Some(0),
            period if period < 0 => Some(1),
            period => Some(period),
        }
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        FIELDS.iter().map(|(label, _)| Cow::Borrowed(*label)).collect()
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        let value = |label: &str, pointer: &str| match obj.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            _ if label == "spec.hostNetwork" => "false".to_owned(),
            _ => String::new(),
        };
        FIELDS.iter().map(|(label, pointer)| (Cow::Borrowed(*label), value(label, pointer))).collect()
    }

    fn columns(&self) -> Vec<Column> {
        print::columns()
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        print::cells(obj, now)
    }

    fn unprinted(&self) -> &'static [&'static str] {
        &print::UNPRINTED
    }

    fn row_conditions(&self, obj: &Object) -> Vec<Value> {
        print::conditions(obj)
    }
}

/// Privileged containers, where the server does not allow them.
pub(crate) fn privileged(spec: &At<'_>, allowed: bool, errs: &mut ErrorList) {
    let containers = pod_spec::CONTAINER_LISTS.iter().flat_map(|list| spec.get(list).items());
    for flag in containers.map(|container| container.get("securityContext").get("privileged")) {
        if flag.is_true() && !allowed {
            errs.push(flag.forbidden("disallowed by cluster policy"));
        }
    }
}

fn gates_go_with_no_node(spec: &At<'_>, errs: &mut ErrorList) {
    let node = spec.get("nodeName");
    if !node.is_empty() && spec.get("schedulingGates").size() > 0 {
        errs.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
}

fn gated_condition(now: Timestamp) -> Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
        "lastTransitionTime": apimachinery::time::format_rfc3339_seconds(now),
        "message": "Scheduling is blocked due to non-empty scheduling gates"})
}

/// `podIP` is the first of `podIPs`, `hostIP` of `hostIPs`; whichever is given fills the other.
fn pod_ips(obj: &mut Object) {
    let Some(status) = edit::object(&mut obj.0, "status") else { return };
    for (one, many) in [("podIP", "podIPs"), ("hostIP", "hostIPs")] {
        let single = edit::text(status, one).to_owned();
        let first = status.get(many).and_then(|list| list.pointer("/0/ip")).and_then(Value::as_str).map(str::to_owned);
        match (single.is_empty(), first) {
            (false, None) => {
                status.insert(many.into(), json!([{"ip": single}]));
            }
            (true, Some(first)) => {
                status.insert(one.into(), first.into());
            }
            (false, Some(first)) if first != single => {
                status.insert(many.into(), json!([{"ip": single}]));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn deletion_is_graceful_only_on_a_node_and_while_it_runs() {
        let ctx = RequestContext::for_tests();
        let strategy = Pod { allow_privileged: true };
        let options = DeleteOptions::default();
        let period = |spec: Value, phase: &str, options: &DeleteOptions| {
            strategy.graceful_delete(&ctx, &pod(json!({"spec": spec, "status": {"phase": phase}})), options)
        };
        let placed = json!({"nodeName": "n", "terminationGracePeriodSeconds": 30});
        assert_eq!(period(placed.clone(), "Running", &options), Some(30));
        assert_eq!(period(placed.clone(), "Failed", &options), Some(0));
        assert_eq!(period(json!({"terminationGracePeriodSeconds": 30}), "Pending", &options), Some(0));
        let short = DeleteOptions { grace_period_seconds: Some(5), ..options };
        assert_eq!(period(placed, "Running", &short), Some(5));
    }

    #[test]
    fn the_first_of_the_addresses_is_the_address() {
        let mut one = pod(json!({"status": {"podIP": "10.0.0.1"}}));
        pod_ips(&mut one);
        assert_eq!(one.0["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
        let mut many = pod(json!({"status": {"hostIPs": [{"ip": "10.0.0.2"}]}}));
        pod_ips(&mut many);
        assert_eq!(many.0["status"]["hostIP"], "10.0.0.2");
    }

    #[test]
    fn selectable_fields_say_false_for_no_host_network() {
        let fields = Pod { allow_privileged: true }.selectable_fields(&pod(json!({"spec": {"nodeName": "n"}})));
        assert!(fields.contains(&("spec.nodeName".into(), "n".into())));
        assert!(fields.contains(&("spec.hostNetwork".into(), "false".into())));
        assert!(fields.contains(&("status.phase".into(), String::new())));
    }
}
