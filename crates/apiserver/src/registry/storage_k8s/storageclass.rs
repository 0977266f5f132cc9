//! Storage classes.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::default_to,
        print::{age, or_unset},
    },
    request::RequestContext,
};

/// The rules of storage classes.
pub(crate) struct StorageClass;

/// Marks the class for claims that name none.
const DEFAULT: [&str; 2] = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

#[async_trait]
impl Strategy for StorageClass {
    fn default(&self, obj: &mut Object) {
        default_to(&mut obj.0, "reclaimPolicy", "Delete");
        default_to(&mut obj.0, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let provisioner = At::field(obj, "provisioner");
        if provisioner.require_str("", &mut errs) {
            provisioner.each_of(names::is_qualified_name(&provisioner.str().to_lowercase()), &mut errs);
        }
        for (key, value) in At::field(obj, "parameters").entries() {
            if key.is_empty() {
                errs.push(value.invalid("field can not be empty."));
            }
        }
        At::field(obj, "reclaimPolicy").one_of_if_set(&["Delete", "Retain"], &mut errs);
        At::field(obj, "volumeBindingMode").one_of(&["Immediate", "WaitForFirstConsumer"], &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            At::field(obj, field).immutable(&At::field(old, field), &mut errs);
        }
        errs
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the class; the default one is marked."),
            Column::new("Provisioner", "string", "What makes its volumes."),
            Column::new("ReclaimPolicy", "string", "What becomes of a volume when its claim goes."),
            Column::new("VolumeBindingMode", "string", "When a volume is made."),
            Column::new("AllowVolumeExpansion", "string", "Whether volumes can grow."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let default = DEFAULT.iter().any(|key| obj.annotation(key) == Some("true"));
        let name = if default { format!("{} (default)", obj.name()) } else { obj.name().to_owned() };
        vec![
            name.into(),
            obj.str_at("/provisioner").into(),
            obj.str_at("/reclaimPolicy").into(),
            or_unset(obj.str_at("/volumeBindingMode")),
            At::field(obj, "allowVolumeExpansion").is_true().into(),
            age(obj, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn provisioner_parameters_and_policies_are_fixed() {
        let class = |patch: Value| {
            let mut obj = json!({"metadata": {"name": "x"}, "provisioner": "x.example.com", "parameters": {"a": "b"}});
            obj.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
            let mut obj = Object::from_value(obj).unwrap();
            StorageClass.default(&mut obj);
            obj
        };
        let check = |patch| {
            let errs = StorageClass.validate_update(&RequestContext::for_tests(), &class(patch), &class(json!({})));
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(check(json!({"parameters": {"a": "c"}})), [r#"parameters: Invalid value: {"a":"c"}: field is immutable"#]);
        assert_eq!(check(json!({"reclaimPolicy": "Retain"})), [r#"reclaimPolicy: Invalid value: "Retain": field is immutable"#]);
        assert!(check(json!({"allowVolumeExpansion": true})).is_empty());
    }
}
