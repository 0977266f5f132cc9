//! Runtime classes.

use apimachinery::{Object, field::ErrorList, names};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Strategy,
        check::{self, At},
        core::pod_spec::{resources, scheduling},
        print::age,
    },
    request::RequestContext,
};

/// The rules of runtime classes.
pub(crate) struct RuntimeClass;

#[async_trait]
impl Strategy for RuntimeClass {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        At::field(obj, "handler").required_name(names::is_dns1123_label, &mut errs);
        let fixed = At::field(obj, "overhead").get("podFixed");
        // Upstream checks the overhead as if it were a container's limits, and says so.
        let limits = At::field(obj, "overhead").get("limits").path;
        for (name, quantity) in fixed.entries() {
            resources::resource_value(name, &quantity.under(limits.key(name)), &mut errs);
        }
        let placement = At::field(obj, "scheduling");
        check::labels(&placement.get("nodeSelector"), &mut errs);
        scheduling::tolerations(&placement.get("tolerations"), &mut errs);
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        At::field(obj, "handler").immutable(&At::field(old, "handler"), &mut errs);
        errs
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the class."),
            Column::new("Handler", "string", "What the container runtime calls it."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        vec![obj.name().into(), obj.str_at("/handler").into(), age(obj, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn handlers_are_labels() {
        let check = |obj: Value| {
            let errs = RuntimeClass.validate(&RequestContext::for_tests(), &Object::from_value(obj).unwrap());
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(check(json!({"handler": ""})), ["handler: Required value"]);
        assert_eq!(
            check(json!({"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}})),
            [r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#]
        );
    }
}
