//! Replication controllers.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod_spec::{self, defaults};
use crate::{
    registry::{
        Column, Dependents, Generation, Strategy,
        apps::workload,
        check::{self, At},
        edit::{default_to, drop_zero, ensure_object, object},
        print::label_map,
        strategy::SPEC,
    },
    request::RequestContext,
};

/// The rules of replication controllers.
pub(crate) struct ReplicationController;

#[async_trait]
impl Strategy for ReplicationController {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        default_to(spec, "replicas", 1);
        drop_zero(spec, "selector");
        let template = ensure_object(spec, "template");
        defaults::template(template);
        let labels = object(template, "metadata").and_then(|metadata| metadata.get("labels").cloned());
        if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) {
            default_to(spec, "selector", labels.clone());
            default_to(obj.meta_mut(), "labels", labels);
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({"replicas": 0}));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        let (selector, template) = (spec.get("selector"), spec.get("template"));
        spec.get("minReadySeconds").non_negative(&mut errs);
        check::labels(&selector, &mut errs);
        if selector.size() == 0 {
            errs.push(selector.required(""));
        }
        spec.get("replicas").non_negative(&mut errs);
        let labels = template.get("metadata").get("labels");
        if !selector.entries().iter().all(|(key, value)| labels.key(key).value == value.value) {
            errs.push(Error::invalid(&labels.path, labels.value.clone(), "`selector` does not match template `labels`"));
        }
        pod_spec::validate_template(&template, &mut errs);
        workload::always_running(&spec, "ReplicationController", &mut errs);
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        workload::warnings(obj)
    }

    fn dependents(&self) -> Dependents {
        Dependents::Orphan
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn field_labels(&self) -> Vec<std::borrow::Cow<'static, str>> {
        vec!["status.replicas".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(std::borrow::Cow<'static, str>, String)> {
        vec![("status.replicas".into(), At::field(obj, "status").get("replicas").int().unwrap_or(0).to_string())]
    }

    fn columns(&self) -> Vec<Column> {
        workload::columns(vec![
            Column::object_name("Name of the replication controller."),
            Column::new("Desired", "integer", "Pods wanted."),
            Column::new("Current", "integer", "Pods there are."),
            Column::new("Ready", "integer", "Pods that are ready."),
        ])
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let mut cells = workload::cells(obj, now, workload::replicas(obj));
        // Its selector is a plain map.
        cells.pop();
        cells.push(label_map(&At::field(obj, "spec").get("selector")));
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_defaults_to_the_templates_labels() {
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "img"}]}}}}))
        .unwrap();
        ReplicationController.default(&mut obj);
        assert_eq!((&obj.0["spec"]["selector"], &obj.0["spec"]["replicas"]), (&json!({"a": "b"}), &json!(1)));
        assert!(ReplicationController.validate(&RequestContext::for_tests(), &obj).is_empty());
    }
}
