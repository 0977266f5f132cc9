//! Pod templates.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::pod_spec::{self, defaults};
use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        edit::ensure_object,
        print::{containers, label_map},
    },
    request::RequestContext,
};

/// The rules of pod templates.
pub(crate) struct PodTemplate;

#[async_trait]
impl Strategy for PodTemplate {
    fn default(&self, obj: &mut Object) {
        defaults::template(ensure_object(&mut obj.0, "template"));
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        pod_spec::validate_template(&At::field(obj, "template"), &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        Generation::Fields(&["template"])
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the template."),
            Column::new("Containers", "string", "Names of its containers."),
            Column::new("Images", "string", "Images of its containers."),
            Column::new("Pod Labels", "string", "Labels of its pods."),
        ]
    }

    fn cells(&self, obj: &Object, _now: Timestamp) -> Vec<Value> {
        let template = At::field(obj, "template");
        let [names, images] = containers(&template.get("spec"));
        vec![obj.name().into(), names, images, label_map(&template.get("metadata").get("labels"))]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pod_is_defaulted_and_shown() {
        let mut obj = Object::from_value(json!({"metadata": {"name": "x"}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "img"}]}}}))
        .unwrap();
        PodTemplate.default(&mut obj);
        assert_eq!(obj.0["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(PodTemplate.cells(&obj, Timestamp::UNIX_EPOCH), ["x", "c", "img", "a=b"].map(Value::from));
    }
}
