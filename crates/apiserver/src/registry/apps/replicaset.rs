//! Replica sets.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::workload;
use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        edit::{default_to, ensure_object},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of replica sets.
pub(crate) struct ReplicaSet;

#[async_trait]
impl Strategy for ReplicaSet {
    fn default(&self, obj: &mut Object) {
        default_to(ensure_object(&mut obj.0, "spec"), "replicas", 1);
        workload::default_template(obj);
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"replicas": 0}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        spec.get("replicas").non_negative(&mut errs);
        spec.get("minReadySeconds").non_negative(&mut errs);
        workload::selector_and_template(&spec, "deployment", &mut errs);
        workload::always_running(&spec, "ReplicaSet", &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        workload::fixed_selector(obj, old, &mut errs);
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        workload::warnings(obj)
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let status = At::field(obj, "status");
        let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
        workload::status_counts(&status, &counts, &mut errs);
        for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
            workload::no_more_than(&status, field, "replicas", &mut errs);
        }
        workload::no_more_than(&status, "availableReplicas", "readyReplicas", &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn columns(&self) -> Vec<Column> {
        workload::columns(vec![
            Column::object_name("Name of the replica set."),
            Column::new("Desired", "integer", "Pods wanted."),
            Column::new("Current", "integer", "Pods there are."),
            Column::new("Ready", "integer", "Pods that are ready."),
        ])
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        workload::cells(obj, now, workload::replicas(obj))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_and_replicas_are_checked() {
        let check = |spec: Value| {
            let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
            ReplicaSet.default(&mut obj);
            let errs = ReplicaSet.validate(&RequestContext::for_tests(), &obj);
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "img"}]}});
        assert_eq!(
            check(json!({"replicas": -2, "selector": {"matchLabels": {"z": "z"}}, "template": template})),
            [
                "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
                r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
            ]
        );
        assert!(check(json!({"selector": {"matchLabels": {"a": "b"}}, "template": template})).is_empty());
    }
}
