//! Namespaces.

use std::borrow::Cow;

use apimachinery::{Object, field::ErrorList, gvk::GroupResource, names, status::Status};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    loopback::Loopback,
    registry::{
        Column, DeleteOptions, Strategy, Subresource,
        check::At,
        edit::{copy, ensure_object},
        print::age,
    },
    request::RequestContext,
};

/// The label every namespace carries its own name under.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer the namespace controller removes when the namespace is empty.
const FINALIZER: &str = "kubernetes";

/// The rules of namespaces.
pub(crate) struct Namespace;

#[async_trait]
impl Strategy for Namespace {
    fn default(&self, obj: &mut Object) {
        let name = obj.name().to_owned();
        if !name.is_empty() {
            obj.set_label(NAME_LABEL, &name);
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        let name = obj.name().to_owned();
        obj.set_label(NAME_LABEL, &name);
        obj.0.insert("status".into(), json!({"phase": "Active"}));
        let spec = ensure_object(&mut obj.0, "spec");
        let mut finalizers = crate::registry::edit::strings(spec, "finalizers");
        if !finalizers.iter().any(|f| f == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        spec.insert("finalizers".into(), finalizers.into());
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for finalizer in At::field(obj, "spec").get("finalizers").items() {
            finalizer_name(&finalizer, &mut errs);
        }
        errs
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let finalizers = old.pointer("/spec/finalizers").cloned();
        let spec = ensure_object(&mut obj.0, "spec");
        match finalizers {
            Some(finalizers) => drop(spec.insert("finalizers".into(), finalizers)),
            None => drop(spec.remove("finalizers")),
        }
    }

    fn validate_update(&self, _ctx: &RequestContext, _obj: &Object, _old: &Object) -> ErrorList {
        ErrorList::new()
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let phase = At::field(obj, "status").get("phase");
        let wanted = if obj.deletion_timestamp().is_some() { "Terminating" } else { "Active" };
        if phase.str() != wanted {
            let when = if wanted == "Active" { "empty" } else { "not empty" };
            errs.push(phase.invalid(format!("may only be '{wanted}' if `deletionTimestamp` is {when}")));
        }
        errs
    }

    async fn begin_delete(&self, _ctx: &RequestContext, _api: &Loopback, obj: &Object, options: &DeleteOptions) -> Result<(), Status> {
        let Some((what, wanted, found, _)) = options.broken_precondition(obj) else { return Ok(()) };
        let text = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(Status::conflict(&GroupResource::new("", "namespaces"), obj.name(), text))
    }

    fn holds_deletion(&self, obj: &Object) -> bool {
        At::field(obj, "spec").get("finalizers").size() > 0
    }

    fn mark_deleted(&self, obj: &mut Object) {
        ensure_object(&mut obj.0, "status").insert("phase".into(), "Terminating".into());
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        if prefix { names::is_dns1123_label(&names::mask_trailing_dash(name)) } else { names::is_dns1123_label(name) }
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        vec!["status.phase".into(), "name".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        vec![("status.phase".into(), obj.str_at("/status/phase").into()), ("name".into(), obj.name().into())]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the namespace."),
            Column::new("Status", "string", "Active, or Terminating while it is being deleted."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        vec![obj.name().into(), obj.str_at("/status/phase").into(), age(obj, now)]
    }
}

fn finalizer_name(finalizer: &At<'_>, errs: &mut ErrorList) {
    let messages = names::is_qualified_name(finalizer.str());
    if messages.is_empty() && !finalizer.str().contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer.str()) {
        errs.push(finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified"));
    }
    finalizer.each_of(messages, errs);
}

/// The `finalize` subresource, which only PUT serves.
pub(crate) fn finalize() -> Subresource {
    Subresource { verbs: &["update"], ..Subresource::view("finalize", Finalize) }
}

/// `/finalize`: the namespace controller takes its finalizer away.
struct Finalize;

#[async_trait]
impl Strategy for Finalize {
    fn holds_deletion(&self, obj: &Object) -> bool {
        Namespace.holds_deletion(obj)
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "status");
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for finalizer in At::field(obj, "spec").get("finalizers").items() {
            finalizer_name(&finalizer, &mut errs);
        }
        errs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_carries_its_name_and_finalizer() {
        let given = json!({"metadata": {"name": "n", "labels": {"a": "b", NAME_LABEL: "wrong"}}, "spec": {}});
        let mut obj = Object::from_value(given).unwrap();
        Namespace.prepare_for_create(&RequestContext::for_tests(), &mut obj);
        assert_eq!(
            obj.value(),
            json!({"metadata": {"name": "n", "labels": {"a": "b", NAME_LABEL: "n"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
        );
    }

    #[test]
    fn only_finalize_changes_the_finalizers() {
        let old = Object::from_value(json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}})).unwrap();
        let mut obj = Object::from_value(json!({"metadata": {"name": "n"}, "spec": {}})).unwrap();
        Namespace.prepare_for_update(&RequestContext::for_tests(), &mut obj, &old);
        assert_eq!(obj.0["spec"]["finalizers"], json!(["kubernetes"]));
    }
}
