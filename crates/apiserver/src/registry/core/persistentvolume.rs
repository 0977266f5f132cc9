//! Persistent volumes.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names, time,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod_spec::{claims, defaults, resources, volume_sources};
use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::{copy, default_to, default_zero, ensure_object, object},
        print::{age, or_unset},
        selectors,
    },
    request::RequestContext,
};

/// The rules of volumes.
pub(crate) struct PersistentVolume;

/// Sources a volume may have, which are also pods' but for these.
const NOT_FOR_VOLUMES: [&str; 9] =
    ["emptyDir", "gitRepo", "secret", "configMap", "downwardAPI", "projected", "ephemeral", "image", "persistentVolumeClaim"];
const LOCAL: &str = "local";

#[async_trait]
impl Strategy for PersistentVolume {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        default_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_to(spec, "volumeMode", "Filesystem");
        defaults::network_volume(spec);
        if let Some(capacity) = object(spec, "capacity") {
            resources::round_up(capacity);
        }
    }

    fn prepare_for_create(&self, ctx: &RequestContext, obj: &mut Object) {
        let now = time::format_rfc3339_seconds(ctx.now);
        obj.0.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
    }

    fn prepare_for_status_update(&self, ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
        if obj.str_at("/status/phase") != old.str_at("/status/phase") {
            let now = time::format_rfc3339_seconds(ctx.now);
            ensure_object(&mut obj.0, "status").insert("lastPhaseTransitionTime".into(), now.into());
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        claims::access_modes(&spec.get("accessModes"), "", &mut errs);
        capacity(&spec.get("capacity"), &mut errs);
        let policy = spec.get("persistentVolumeReclaimPolicy");
        policy.one_of_if_set(&["Delete", "Recycle", "Retain"], &mut errs);
        if spec.get("nodeAffinity").is_set() {
            selectors::node_selector(&spec.get("nodeAffinity").get("required"), &mut errs);
        }
        source(&spec, &mut errs);
        if spec.get("hostPath").get("path").str() == "/" && policy.str() == "Recycle" {
            errs.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
        }
        spec.get("storageClassName").name_if_set(names::is_dns1123_subdomain, &mut errs);
        spec.get("volumeMode").one_of_if_set(&["Block", "Filesystem"], &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let (new, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        if sources(&new) != sources(&was) {
            let at = new.path.child("persistentvolumesource");
            let text = format!(
                "spec.persistentvolumesource is immutable after creation\n@@ -1,1 +1,1 @@\n-{}\n+{}\n",
                json!(sources(&was)),
                json!(sources(&new))
            );
            errs.push(Error::forbidden(&at, text));
        }
        let root = |field: &str| apimachinery::field::Path::new(field);
        new.get("volumeMode").under(root("volumeMode")).immutable(&was.get("volumeMode"), &mut errs);
        let affinity = new.get("nodeAffinity");
        if was.get("nodeAffinity").is_set() && affinity.value != was.get("nodeAffinity").value {
            let shown = crate::registry::check::internal_form(affinity.value);
            errs.push(Error::invalid(&root("nodeAffinity"), shown, "field is immutable, except for updating from beta label to GA"));
        }
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the volume."),
            Column::new("Capacity", "string", "How much it holds."),
            Column::new("Access Modes", "string", "How it may be mounted."),
            Column::new("Reclaim Policy", "string", "What becomes of it when its claim goes."),
            Column::new("Status", "string", "Available, Bound, Released or Failed."),
            Column::new("Claim", "string", "The claim it is bound to."),
            Column::new("StorageClass", "string", "Its class."),
            Column::new("VolumeAttributesClass", "string", "Its attributes."),
            Column::new("Reason", "string", "Why it is in this state."),
            Column::new("Age", "string", "Time since creation."),
            Column::wide("VolumeMode", "string", "Filesystem or Block."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (At::field(obj, "spec"), At::field(obj, "status"));
        let claim = spec.get("claimRef");
        let claim = if claim.is_set() { format!("{}/{}", claim.get("namespace").str(), claim.get("name").str()) } else { String::new() };
        let phase = if obj.deletion_timestamp().is_some() { "Terminating" } else { status.get("phase").str() };
        vec![
            obj.name().into(),
            spec.get("capacity").key("storage").str().into(),
            access_modes(&spec.get("accessModes")).into(),
            spec.get("persistentVolumeReclaimPolicy").str().into(),
            phase.into(),
            claim.into(),
            spec.get("storageClassName").str().into(),
            or_unset(spec.get("volumeAttributesClassName").str()),
            status.get("reason").str().into(),
            age(obj, now),
            or_unset(spec.get("volumeMode").str()),
        ]
    }
}

/// Access modes in their short forms.
pub(crate) fn access_modes(modes: &At<'_>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given = modes.strs();
    SHORT.iter().filter(|(mode, _)| given.contains(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn capacity(capacity: &At<'_>, errs: &mut ErrorList) {
    if capacity.size() == 0 {
        errs.push(capacity.required(""));
    }
    if capacity.size() != 1 || !capacity.key("storage").is_set() {
        errs.push(capacity.not_supported(&["storage"]));
    }
    for (_, quantity) in capacity.entries() {
        if quantity.quantity().is_some_and(|q| q.sign() <= 0) {
            errs.push(quantity.invalid("must be greater than zero"));
        }
    }
}

fn source(spec: &At<'_>, errs: &mut ErrorList) {
    let mut found = false;
    let local: volume_sources::Check = |at, errs| {
        at.get("path").require_str("", errs);
    };
    let known = volume_sources::SOURCES.iter().copied().chain([(LOCAL, local)]);
    for (name, check) in known.filter(|(name, _)| !NOT_FOR_VOLUMES.contains(name)) {
        let source = spec.get(name);
        if !source.is_set() {
            continue;
        }
        if found {
            errs.push(source.forbidden("may not specify more than 1 volume type"));
        } else {
            check(&source, errs);
        }
        found = true;
    }
    if !found {
        errs.push(spec.required("must specify a volume type"));
    }
}

/// The sources a spec sets, with their values.
fn sources<'a>(spec: &At<'a>) -> Vec<(&'static str, &'a Value)> {
    let names = volume_sources::SOURCES.iter().map(|(name, _)| *name).chain([LOCAL]);
    names.map(|name| (name, spec.get(name).value)).filter(|(_, value)| !value.is_null()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(patch: Value) -> Vec<String> {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/golden"}});
        spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        PersistentVolume.default(&mut obj);
        PersistentVolume.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_answers_with_upstreams_words() {
        let cases: [(Value, &[&str]); 6] = [
            (json!({}), &[]),
            (
                json!({"capacity": null}),
                &["spec.capacity: Required value", r#"spec.capacity: Unsupported value: null: supported values: "storage""#],
            ),
            (json!({"accessModes": []}), &["spec.accessModes: Required value"]),
            (json!({"hostPath": null}), &["spec: Required value: must specify a volume type"]),
            (json!({"nfs": {"server": "", "path": "x"}}), &["spec.nfs: Forbidden: may not specify more than 1 volume type"]),
            (json!({"capacity": {"storage": "0"}}), &[r#"spec.capacity[storage]: Invalid value: "0": must be greater than zero"#]),
        ];
        for (patch, expected) in cases {
            assert_eq!(complaints(patch.clone()), expected, "{patch}");
        }
    }
}
