//! `pods/binding` and `bindings`: a scheduler puts a pod on a node.

use apimachinery::{Object, field::ErrorList, gvk::GroupResource, status::Status};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use super::condition;
use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect, Finish, Strategy, check::At, edit},
    request::RequestContext,
};

/// The internal subresource of pods that assigns a node; see [`Assign`].
pub(crate) const ASSIGN: &str = "assign";

/// Serves a Binding by patching the pod's [`ASSIGN`] subresource.
pub(crate) struct Bind;

#[async_trait]
impl Connect for Bind {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        let binding = call.body.unwrap_or_default();
        check(&binding)?;
        let name = if call.name.is_empty() { binding.name().to_owned() } else { call.name };
        let patch = json!({
            "metadata": {"labels": binding.meta().get("labels"), "annotations": binding.meta().get("annotations"),
                "uid": binding.meta().get("uid")},
            "spec": {"nodeName": binding.str_at("/target/name")},
        });
        let pods = api.namespaced("v1", "pods", ctx.namespace());
        if ctx.dry_run {
            assignable(&pods.get(&name).await?)?;
        } else {
            pods.merge_patch(&format!("{name}/{ASSIGN}"), &without_nulls(patch)).await?;
        }
        Ok(Answer::Object(StatusCode::CREATED, success()))
    }
}

/// A merge patch must not clear what the binding does not mention.
fn without_nulls(mut patch: Value) -> Value {
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.is_null());
    }
    patch
}

fn success() -> Object {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Object::from_value(status).unwrap_or_default()
}

fn check(binding: &Object) -> Result<(), Status> {
    let target = At::field(binding, "target");
    let mut errs = ErrorList::new();
    target.get("kind").one_of_if_set(&["Node", "<empty>"], &mut errs);
    target.get("name").require_str("", &mut errs);
    match errs.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&apimachinery::gvk::GroupKind::new("", "Binding"), binding.name(), errs)),
    }
}

/// Sets the node of a pod that has none. Served to the server itself only: the way around the rule that a pod's
/// node may not be changed.
pub(crate) struct Assign;

#[async_trait]
impl Strategy for Assign {
    async fn begin_update(&self, _ctx: &RequestContext, _api: &Loopback, obj: &mut Object, old: &Object) -> Result<Finish, Status> {
        assignable(old)?;
        let wanted = obj.str_at("/spec/nodeName").to_owned();
        keep_all_but_binding(obj, old, &wanted);
        Ok(None)
    }

    fn prepare_for_update(&self, ctx: &RequestContext, obj: &mut Object, _old: &Object) {
        condition::set(obj, "PodScheduled", ("", ""), ctx.now);
    }
}

/// Whether the pod waits for a node.
fn assignable(pod: &Object) -> Result<(), Status> {
    let (name, node) = (pod.name(), pod.str_at("/spec/nodeName"));
    let why = if pod.deletion_timestamp().is_some() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node {node:?}")
    } else if At::field(pod, "spec").get("schedulingGates").size() > 0 {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Status::conflict(&GroupResource::new("", "pods/binding"), name, why))
}

/// The old pod with the node and the binding's labels and annotations.
fn keep_all_but_binding(obj: &mut Object, old: &Object, node: &str) {
    let (labels, annotations) = (obj.labels(), obj.annotations());
    *obj = old.clone();
    obj.set_labels(labels);
    obj.set_annotations(annotations);
    edit::ensure_object(&mut obj.0, "spec").insert("nodeName".into(), node.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn a_pod_is_bound_once() {
        let ctx = RequestContext::for_tests();
        let api = Loopback::default();
        let free = object(json!({"metadata": {"name": "p"}, "spec": {"containers": []}}));
        let mut wanted = object(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "hostname": "x"}}));
        assert!(Assign.begin_update(&ctx, &api, &mut wanted, &free).await.is_ok());
        Assign.prepare_for_update(&ctx, &mut wanted, &free);
        assert_eq!(wanted.0["spec"], json!({"containers": [], "nodeName": "n"}));
        assert_eq!(wanted.0["status"]["conditions"][0]["type"], "PodScheduled");

        let taken = object(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "m"}}));
        let refused = Assign.begin_update(&ctx, &api, &mut wanted, &taken).await.err().unwrap();
        assert_eq!(refused.code, 409);
        assert_eq!(refused.message, "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"m\"");
    }
}
