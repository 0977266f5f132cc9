//! Stateful sets.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::workload;
use crate::{
    registry::{
        Column, Generation, Strategy,
        check::{At, internal_form},
        core::pod_spec::defaults,
        edit::{default_to, default_zero, each, ensure_object, text},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of stateful sets.
pub(crate) struct StatefulSet;

/// Fields of the spec that may change.
const FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

#[async_trait]
impl Strategy for StatefulSet {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        default_zero(spec, "podManagementPolicy", "OrderedReady");
        default_to(spec, "replicas", 1);
        default_to(spec, "revisionHistoryLimit", 10);
        default_to(spec, "serviceName", "");
        let update = ensure_object(spec, "updateStrategy");
        default_zero(update, "type", "RollingUpdate");
        if text(update, "type") == "RollingUpdate" {
            default_to(ensure_object(update, "rollingUpdate"), "partition", 0);
        }
        let retention = ensure_object(spec, "persistentVolumeClaimRetentionPolicy");
        for when in ["whenDeleted", "whenScaled"] {
            default_zero(retention, when, "Retain");
        }
        for claim in each(spec, "volumeClaimTemplates") {
            default_zero(claim, "apiVersion", "v1");
            default_zero(claim, "kind", "PersistentVolumeClaim");
            defaults::claim_spec(ensure_object(claim, "spec"));
            default_zero(ensure_object(claim, "status"), "phase", "Pending");
        }
        workload::default_template(obj);
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"replicas": 0, "availableReplicas": 0}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let management = spec.get("podManagementPolicy");
        if !["OrderedReady", "Parallel"].contains(&management.str()) {
            errs.push(management.invalid("must be 'OrderedReady' or 'Parallel'"));
        }
        update_strategy(&spec.get("updateStrategy"), &mut errs);
        for when in ["whenDeleted", "whenScaled"] {
            spec.get("persistentVolumeClaimRetentionPolicy").get(when).one_of(&["Retain", "Delete"], &mut errs);
        }
        for field in ["replicas", "minReadySeconds"] {
            spec.get(field).non_negative(&mut errs);
        }
        spec.get("ordinals").get("start").non_negative(&mut errs);
        spec.get("serviceName").name_if_set(names::is_dns1123_label, &mut errs);
        workload::selector_and_template(&spec, "statefulset", &mut errs);
        workload::always_running(&spec, "StatefulSet", &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let fixed = |obj: &Object| {
            let mut spec = obj.0.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
            spec.retain(|field, _| !FREE.contains(&field.as_str()));
            spec
        };
        if fixed(obj) != fixed(old) {
            errs.push(At::field(obj, "spec").forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ));
        }
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        workload::warnings(obj)
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let status = At::field(obj, "status");
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        workload::status_counts(&status, &counts, &mut errs);
        for field in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
            workload::no_more_than(&status, field, "replicas", &mut errs);
        }
        workload::no_more_than(&status, "availableReplicas", "readyReplicas", &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        let own = vec![Column::object_name("Name of the stateful set."), Column::new("Ready", "string", "Ready pods of wanted pods.")];
        let mut columns = workload::columns(own);
        columns.pop();
        columns
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let mut cells = workload::cells(obj, now, vec![workload::ready_of_wanted(obj)]);
        cells.pop();
        cells
    }
}

fn update_strategy(strategy: &At<'_>, errs: &mut ErrorList) {
    let (kind, rolling) = (strategy.get("type"), strategy.get("rollingUpdate"));
    match kind.str() {
        "OnDelete" if rolling.is_set() => {
            let shown = internal_form(rolling.value);
            errs.push(Error::invalid(&rolling.path, shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.get("partition").non_negative(errs);
            let most = rolling.get("maxUnavailable");
            if most.is_set() {
                workload::int_or_percent(&most, errs);
                workload::at_most_all(&most, errs);
            }
        }
        _ => errs.push(Error::invalid(&strategy.path, internal_form(strategy.value), "must be 'RollingUpdate' or 'OnDelete'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(patch: Value) -> Object {
        let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "img"}]}}});
        spec.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
        StatefulSet.default(&mut obj);
        obj
    }

    #[test]
    fn policies_partitions_and_ordinals_are_checked() {
        let cases: [(Value, &[&str]); 4] = [
            (json!({}), &[]),
            (
                json!({"podManagementPolicy": "X"}),
                &[r#"spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'"#],
            ),
            (json!({"ordinals": {"start": -1}}), &["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
            (
                json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}}),
                &[r#"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "X": supported values: "Retain", "Delete""#],
            ),
        ];
        for (patch, expected) in cases {
            let errs = StatefulSet.validate(&RequestContext::for_tests(), &set(patch.clone()));
            assert_eq!(errs.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{patch}");
        }
    }

    #[test]
    fn all_but_a_list_of_fields_is_fixed() {
        let ctx = RequestContext::for_tests();
        assert!(StatefulSet.validate_update(&ctx, &set(json!({"replicas": 5})), &set(json!({}))).is_empty());
        let errs = StatefulSet.validate_update(&ctx, &set(json!({"serviceName": "t"})), &set(json!({})));
        assert!(
            errs[0].to_string().starts_with("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals',")
        );
    }
}
