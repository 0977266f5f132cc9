//! Persistent volume claims.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    persistentvolume::access_modes,
    pod_spec::{claims, defaults},
};
use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::{copy, ensure_object},
        print::{age, or_unset},
    },
    request::RequestContext,
};

/// The rules of claims.
pub(crate) struct PersistentVolumeClaim;

#[async_trait]
impl Strategy for PersistentVolumeClaim {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        defaults::claim_spec(spec);
        for reference in ["dataSource", "dataSourceRef"] {
            if let Some(reference) = crate::registry::edit::object(spec, reference) {
                reference.entry("apiGroup").or_insert(Value::Null);
            }
        }
        // The older field expresses only some sources; others in it are dropped.
        if spec.get("dataSource").is_some_and(|source| source.is_object() && !is_known_source(source)) {
            spec.remove("dataSource");
        }
        // Each of the two spellings of the data source fills the other.
        for (one, other) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
            let value = spec.get(one).filter(|value| value.is_object() && value.get("namespace").is_none()).cloned();
            if let Some(value) = value.filter(is_known_source) {
                crate::registry::edit::default_to(spec, other, value);
            }
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"phase": "Pending"}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        claims::validate_spec(&At::field(obj, "spec"), &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let mut munged = At::field(obj, "spec").map().cloned().unwrap_or_default();
        let was = At::field(old, "spec").map().cloned().unwrap_or_default();
        for field in ["resources", "volumeAttributesClassName"] {
            copy(&mut munged, &was, field);
        }
        if old.str_at("/spec/volumeName").is_empty() {
            copy(&mut munged, &was, "volumeName");
        }
        if was.get("storageClassName").is_none_or(Value::is_null) {
            copy(&mut munged, &was, "storageClassName");
        }
        if munged != was {
            errs.push(
                At::field(obj, "spec")
                    .forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"),
            );
        }
        shrinks(obj, old, &mut errs);
        errs
    }

    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for (_, quantity) in At::field(obj, "status").get("capacity").entries() {
            if let Some(amount) = quantity.quantity().filter(|q| q.sign() < 0) {
                errs.push(Error::invalid(&quantity.path, amount.value(), "must be a valid resource quantity"));
            }
        }
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the claim."),
            Column::new("Status", "string", "Pending, Bound or Lost."),
            Column::new("Volume", "string", "The volume it is bound to."),
            Column::new("Capacity", "string", "How much it has."),
            Column::new("Access Modes", "string", "How it may be mounted."),
            Column::new("StorageClass", "string", "The class of its volume."),
            Column::new("VolumeAttributesClass", "string", "The attributes of its volume."),
            Column::new("Age", "string", "Time since creation."),
            Column::wide("VolumeMode", "string", "Filesystem or Block."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        let bound = !spec.get("volumeName").is_empty();
        let deleted = obj.deletion_timestamp().is_some();
        let phase = if deleted { "Terminating" } else { status.get("phase").str() };
        let capacity = if bound { status.get("capacity").key("storage").str().to_owned() } else { String::new() };
        let modes = if bound { access_modes(&status.get("accessModes")) } else { String::new() };
        vec![
            obj.name().into(),
            phase.into(),
            spec.get("volumeName").str().into(),
            capacity.into(),
            modes.into(),
            spec.get("storageClassName").str().into(),
            or_unset(spec.get("volumeAttributesClassName").str()),
            age(obj, now),
            or_unset(spec.get("volumeMode").str()),
        ]
    }
}

/// Data sources that the older field can express.
fn is_known_source(value: &Value) -> bool {
    let (group, kind) = (value["apiGroup"].as_str().unwrap_or_default(), value["kind"].as_str().unwrap_or_default());
    matches!((group, kind), ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
}

/// A claim may grow but not shrink below what it has.
fn shrinks(obj: &Object, old: &Object, errs: &mut ErrorList) {
    let size = |obj: &Object| At::field(obj, "spec").get("resources").get("requests").key("storage").quantity();
    let at = At::field(obj, "spec").get("resources").get("requests").key("storage");
    if let (Some(new), Some(was)) = (size(obj), size(old))
        && new < was
    {
        errs.push(
            at.under(At::field(obj, "spec").get("resources").get("requests").get("storage").path)
                .forbidden("field can not be less than status.capacity"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_source_is_spelled_both_ways() {
        let given = json!({"spec": {"accessModes": ["ReadWriteMany"], "dataSource": {"kind": "PersistentVolumeClaim", "name": "src"},
            "resources": {"requests": {"storage": "1024Mi"}}}});
        let mut obj = Object::from_value(given).unwrap();
        PersistentVolumeClaim.default(&mut obj);
        assert_eq!(obj.0["spec"]["dataSourceRef"], json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "src"}));
        assert_eq!(obj.0["spec"]["volumeMode"], "Filesystem");
        assert_eq!(obj.0["spec"]["resources"]["requests"]["storage"], "1Gi");
        assert!(PersistentVolumeClaim.validate(&RequestContext::for_tests(), &obj).is_empty());
    }
}
